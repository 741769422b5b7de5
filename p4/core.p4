// The P4_16 core library as p4jet declares it: the names every architecture builds on
// (P4_16 specification, appendix "P4 core library").

#ifndef _CORE_P4_
#define _CORE_P4_

// Codes that the language itself raises; programs may declare more.
error {
    NoError,
    PacketTooShort,         // extract, advance or lookahead past the end of the packet
    NoMatch,                // no case of a select fits
    StackOutOfBounds,       // next or last of a header stack that is full or empty
    HeaderTooShort,         // a varbit field is asked to hold more than its maximum
    ParserTimeout,          // a limit of the target on parsing
    ParserInvalidArgument   // an argument that the target cannot honour
}

// A packet being parsed.
extern packet_in {
    // Fills a header of fixed size and moves on.
    void extract<T>(out T hdr);
    // Fills a header with one varbit field, which gets the given number of bits.
    void extract<T>(out T variableSizeHeader,
                    in bit<32> variableFieldSizeInBits);
    // Reads without moving on.
    T lookahead<T>();
    // Skips bits.
    void advance(in bit<32> sizeInBits);
    // Bytes in the packet.
    bit<32> length();
}

// A packet being put together.
extern packet_out {
    // Appends a header if it is valid; of stacks, unions and structs every valid header in order.
    void emit<T>(in T hdr);
}

// In a parser: goes to reject with the given code unless the condition holds.
extern void verify(in bool check, in error toSignal);

// The action that changes nothing, and the default of tables that name none.
@noWarn("unused")
action NoAction() {}

match_kind {
    exact,      // equal
    ternary,    // equal under a mask
    lpm         // equal in a prefix; the longest wins
}

// Stops the compilation with the message when the condition is false; always returns true otherwise.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
