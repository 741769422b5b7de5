// The v1model architecture as p4jet declares it: the interface of bmv2's simple_switch.
// From V1MODEL_VERSION 20200408 on, indices of counters, meters and registers have a type of their own.

#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include "core.p4"

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

match_kind {
    range,      // between two bounds, both included
    optional,   // equal, or anything
    selector    // input of an action selector's hash; no part of the lookup
}

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9>  PortId_t;
#endif

@metadata @name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t    ingress_port;
    PortId_t    egress_spec;
    PortId_t    egress_port;
#else
    bit<9>      ingress_port;
    bit<9>      egress_spec;
    bit<9>      egress_port;
#endif
    bit<32>     instance_type;
    bit<32>     packet_length;
    // What the queue knew, readable in egress.
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp;
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta;
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;
    // Microseconds since the switch started.
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    // Multicast group to send to; 0 for none.
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;
    // Which replica this is.
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;
    // 1 after a failed verify_checksum.
    bit<1>  checksum_error;
    // What the parser raised.
    error parser_error;
    // Queue to wait in.
    @alias("intrinsic_metadata.priority")
    bit<3> priority;
}

enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

enum MeterType {
    packets,
    bytes
}

// An array of counters that the program increments and the control plane reads.
extern counter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    counter(bit<32> size, CounterType type);
#if V1MODEL_VERSION >= 20200408
    void count(in I index);
#else
    void count(in bit<32> index);
#endif
}

// One counter for each entry of the table that names it in `counters`.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN  0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED    2

// An array of two-rate three-colour meters.
extern meter
#if V1MODEL_VERSION >= 20200408
<I>
#endif
{
    meter(bit<32> size, MeterType type);
#if V1MODEL_VERSION >= 20200408
    void execute_meter<T>(in I index, out T result);
#else
    void execute_meter<T>(in bit<32> index, out T result);
#endif
}

// One meter for each entry of the table that names it in `meters`.
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

// An array of cells that packets and the control plane read and write.
#if V1MODEL_VERSION >= 20200408
extern register<T, I>
#else
extern register<T>
#endif
{
    register(bit<32> size);
    @noSideEffects
#if V1MODEL_VERSION >= 20200408
    void read(out T result, in I index);
#else
    void read(out T result, in bit<32> index);
#endif
#if V1MODEL_VERSION >= 20200408
    void write(in I index, in T value);
#else
    void write(in bit<32> index, in T value);
#endif
}

// Values of a table's `implementation`: shared action data, …
extern action_profile {
    action_profile(bit<32> size);
}

// A number between lo and hi, both included.
extern void random<T>(out T result, in T lo, in T hi);

// A message to the control plane with the values data has now.
extern void digest<T>(in bit<32> receiver, in T data);

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

@deprecated("Write mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();

// Asks for the packet to be dropped at the end of the control: writes egress_spec and mcast_grp.
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

// base + hash(data) mod max; just base when max is 0.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

// … or a choice among groups of members by a hash of the selector keys.
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

enum CloneType {
    I2E,
    E2E
}

@deprecated("Write verify_checksum or update_checksum instead.")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// Sets checksum_error where the condition holds and the checksum of data differs.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

// Writes the checksum of data where the condition holds.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// The same two with all unparsed bytes appended to data.
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// Copies of the packet, as a clone session says, that start in egress without user metadata.
extern void clone(in CloneType type, in bit<32> session);

@deprecated("Write resubmit_preserving_field_list instead.")
extern void resubmit<T>(in T data);
// From ingress back to the parser with the packet as it came and the user metadata marked @field_list(index).
extern void resubmit_preserving_field_list(bit<8> index);

@deprecated("Write recirculate_preserving_field_list instead.")
extern void recirculate<T>(in T data);
// From the deparser back to the parser with the packet as it leaves and the user metadata marked @field_list(index).
extern void recirculate_preserving_field_list(bit<8> index);

@deprecated("Write clone_preserving_field_list instead.")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

// As clone, with the user metadata marked @field_list(index).
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);

// Cuts the packet to a length in bytes as it leaves.
extern void truncate(in bit<32> length);

// Both report a false condition and leave the switch.
extern void assert(in bool check);
extern void assume(in bool check);

// Log messages; each {} in msg stands for the next element of data.
extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

// The pipeline: H is the struct of headers, M the user metadata.

parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);

control VerifyChecksum<H, M>(inout H hdr,
                             inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr,
                      inout M meta,
                      inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr,
                     inout M meta,
                     inout standard_metadata_t standard_metadata);

control ComputeChecksum<H, M>(inout H hdr,
                              inout M meta);

@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep
                       );

#endif
