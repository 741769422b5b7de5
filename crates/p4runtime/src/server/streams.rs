//! StreamChannel: messages from clients on their streams.

use super::device::{Device, WANTED_FIELDS_MAX, lock};
use super::outbox::{Outbox, Outgoing};
use super::packets::ToSwitch;
use crate::session::StreamId;
use crate::wire;
use bytes::Bytes;
use p4jet_p4info::proto::v1;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_stream::StreamExt;
use tonic::{Code, Status, Streaming};

/// Bytes of a client's message in a StreamError: by default, clients take at most 4 MiB.
const COPY_BYTES_MAX: usize = 1 << 20;
/// Why neither packets nor acknowledgements have an effect without a program.
const NO_PIPELINE: &str = "no pipeline is configured";
/// Characters of the type of an unknown message in a StreamError.
const TYPE_CHARS_MAX: usize = 256;

/// The stream to a client.
pub type ToClient = Outgoing<Box<dyn FnMut() + Send>>;

/// Accepts a client's stream.
///
/// # Errors
/// There are too many streams.
pub fn open(
    device: &Arc<Device>,
    to_switch: Option<ToSwitch>,
    incoming: Streaming<Bytes>,
) -> Result<ToClient, Status> {
    let (stream, outgoing) = Stream::open(device, to_switch)?;
    tokio::spawn(stream.listen(incoming));
    Ok(outgoing)
}

/// The server's end of a stream.
pub struct Stream {
    device: Arc<Device>,
    id: StreamId,
    outbox: Arc<Outbox>,
    to_switch: Option<ToSwitch>,
}

impl Stream {
    /// Opens a stream, and returns what goes to the client, too.
    ///
    /// # Errors
    /// There are too many.
    pub fn open(device: &Arc<Device>, to_switch: Option<ToSwitch>) -> Result<(Stream, ToClient), Status> {
        let (id, outbox) = device.open()?;
        // The client is gone, whether or not it has ended its side.
        let gone = Arc::downgrade(device);
        let on_drop: Box<dyn FnMut() + Send> =
            Box::new(move || gone.upgrade().iter().for_each(|device| device.close(id)));
        let outgoing = Outgoing::new(Arc::clone(&outbox), on_drop);
        let stream = Stream { device: Arc::clone(device), id, outbox, to_switch };
        Ok((stream, outgoing))
    }

    async fn listen(self, mut incoming: Streaming<Bytes>) {
        let how = loop {
            let message = match incoming.next().await {
                Some(Ok(message)) => message,
                Some(Err(status)) => break Err(status),
                None => break Ok(()),
            };
            if let Err(status) = self.take(message).await {
                break Err(status);
            }
            if self.outbox.is_gone() {
                break Ok(());
            }
        };
        // The election id is free before the client sees the end.
        self.device.close(self.id);
        self.outbox.end(how);
    }

    /// Takes a message.
    ///
    /// # Errors
    /// The status with which the stream ends.
    pub async fn take(&self, message: Bytes) -> Result<(), Status> {
        if wire::weight(&message, 4, WANTED_FIELDS_MAX) > WANTED_FIELDS_MAX {
            let why = format!("the message has more than {WANTED_FIELDS_MAX} messages and byte strings");
            self.send_error(Code::ResourceExhausted, why, None);
            return Ok(());
        }
        let Ok(request) = v1::StreamMessageRequest::decode(message) else {
            self.send_error(Code::InvalidArgument, "the message cannot be decoded".to_string(), None);
            return Ok(());
        };
        match request.update {
            Some(v1::StreamRequest::Arbitration(update)) => self.device.arbitrate(self.id, update).await,
            Some(v1::StreamRequest::Packet(mut packet)) => {
                if let Err((code, why)) = self.send(&packet) {
                    self.device.counts.packet_outs_dropped.fetch_add(1, Ordering::Relaxed);
                    if packet.encoded_len() > COPY_BYTES_MAX {
                        packet.payload.truncate(COPY_BYTES_MAX);
                        packet.metadata.clear();
                    }
                    let packet_out = Some(packet);
                    let details = v1::StreamErrorDetails::PacketOut(v1::PacketOutError { packet_out });
                    self.send_error(code, why, Some(details));
                }
                Ok(())
            }
            Some(v1::StreamRequest::DigestAck(ack)) => {
                self.acknowledge(ack);
                Ok(())
            }
            Some(v1::StreamRequest::Other(mut other)) => {
                other.type_url = other.type_url.chars().take(TYPE_CHARS_MAX).collect();
                other.value.truncate(COPY_BYTES_MAX);
                let why = format!("no message of type `{}` is supported", other.type_url);
                let details = v1::StreamErrorDetails::Other(v1::StreamOtherError { other: Some(other) });
                self.send_error(Code::Unimplemented, why, Some(details));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sends a controller's packet through the switch.
    fn send(&self, packet: &v1::PacketOut) -> Result<(), (Code, String)> {
        if !self.device.may_send(self.id) {
            return Err((Code::PermissionDenied, "only the primary may send packets".to_string()));
        }
        let none = || (Code::FailedPrecondition, "the switch has no CPU port (--cpu-port)".to_string());
        let to_switch = self.to_switch.as_ref().ok_or_else(none)?;
        let no_pipeline = || (Code::FailedPrecondition, NO_PIPELINE.to_string());
        let configured = self.device.known().ok_or_else(no_pipeline)?;
        let header =
            configured.packet_out_header(&packet.metadata).map_err(|why| (Code::InvalidArgument, why))?;
        let mut to_switch = lock(to_switch);
        let (length, max) = (header.len() + packet.payload.len(), to_switch.frame_max());
        if length > max {
            let why = format!("the packet has {length} bytes, expected at most {max} (--frame-max)");
            return Err((Code::InvalidArgument, why));
        }
        match to_switch.put(&header, &packet.payload) {
            true => Ok(()),
            false => {
                Err((Code::ResourceExhausted, "packets arrive faster than the switch takes them".to_string()))
            }
        }
    }

    /// Handles a client's acknowledgement of a list of digests.
    fn acknowledge(&self, ack: v1::DigestListAck) {
        // DG-6: those of others do not count.
        if !self.device.may_send(self.id) {
            return;
        }
        let running = self.device.known();
        let why = match running.as_ref().map(|running| running.pipeline.digest(ack.digest_id)) {
            Some(Ok(_)) => {
                lock(&self.device.lists).acknowledge(ack.digest_id, ack.list_id);
                return;
            }
            Some(Err(refusal)) => refusal.message,
            None => NO_PIPELINE.to_string(),
        };
        let details = v1::DigestListAckError { digest_list_ack: Some(ack) };
        self.send_error(Code::InvalidArgument, why, Some(v1::StreamErrorDetails::DigestListAck(details)));
    }

    /// Reports to the client a message that had no effect, if there is room.
    fn send_error(&self, code: Code, message: String, details: Option<v1::StreamErrorDetails>) {
        let error = v1::StreamError {
            canonical_code: code as i32,
            message,
            space: crate::refusal::SPACE.to_string(),
            code: 0,
            details,
        };
        let update = Some(v1::StreamResponse::Error(error));
        self.outbox.put_error(v1::StreamMessageResponse { update }.encode_to_vec().into());
    }
}
