//! A server without sockets, for fuzzing: its methods are called with messages in binary form, as they come from clients.

use super::device::Device;
use super::streams::{Stream, ToClient};
use super::{MESSAGE_BYTES_MAX, packets};
use crate::session::Rules;
use bytes::Bytes;
use p4jet_control::SharedControl;
use p4jet_ports::{FromSwitch, Port, controller_port};
use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::runtime::{Builder, Runtime};
use tonic::Status;

/// A server without sockets, and one stream of a client.
pub struct InProcess {
    device: Arc<Device>,
    to_switch: packets::ToSwitch,
    stream: Option<(Stream, ToClient)>,
    runtime: Runtime,
    /// The other ends of the CPU port, whose packets nobody takes.
    _cpu: (Vec<Box<dyn Port>>, FromSwitch),
}

/// The longest frame of its CPU port, in bytes.
const FRAME_MAX: usize = 2048;

impl InProcess {
    /// Serves a switch as device 1.
    ///
    /// # Errors
    /// The system refuses a thread or memory.
    pub fn new(switch: SharedControl) -> io::Result<InProcess> {
        let rules = Rules { device: Some(1), streams_max: 16, as_bmv2: false };
        let (device, answers) = Device::new(switch, rules, true, Arc::new(|_| ()))?;
        let runtime = Builder::new_current_thread().enable_time().build()?;
        runtime.spawn(answers.give());
        let (handles, from, to) =
            controller_port(1, FRAME_MAX).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(InProcess {
            device: Arc::new(device),
            to_switch: Arc::new(Mutex::new(to)),
            stream: None,
            runtime,
            _cpu: (handles, from),
        })
    }

    /// Calls a method other than StreamChannel, and returns its answers.
    ///
    /// # Errors
    /// The status of the method. Answers before it are lost.
    pub fn call(&self, method: &str, request: Bytes) -> Result<Vec<Bytes>, Status> {
        if request.len() > MESSAGE_BYTES_MAX {
            return Err(Status::resource_exhausted("the message is too long"));
        }
        let device = &self.device;
        match method {
            "Write" => {
                let write = device.decode_write(request).and_then(|request| device.write(request));
                write.map(|()| Vec::new())
            }
            "SetForwardingPipelineConfig" => {
                let set = device.set_pipeline(&request);
                self.settle();
                set.map(|()| Vec::new())
            }
            "GetForwardingPipelineConfig" => device.get_pipeline(&request).map(|answer| vec![answer]),
            "Capabilities" => device.capabilities(&request).map(|answer| vec![answer]),
            "Read" => {
                let request = device.read_request(request)?;
                let answers = RefCell::new(Vec::new());
                let send = |answer| {
                    answers.borrow_mut().push(answer);
                    true
                };
                device.read(&request, &send);
                answers.into_inner().into_iter().collect()
            }
            _ => Err(Status::unimplemented("P4Runtime has no such method")),
        }
    }

    /// Sends a message on the client's stream, which is opened if there is none.
    ///
    /// # Errors
    /// The status with which the stream has ended.
    pub fn say(&mut self, message: Bytes) -> Result<(), Status> {
        let (stream, to_client) = match self.stream.take() {
            Some(open) => open,
            None => Stream::open(&self.device, Some(Arc::clone(&self.to_switch)))?,
        };
        let taken = self.runtime.block_on(stream.take(message));
        self.settle();
        if taken.is_ok() {
            self.stream = Some((stream, to_client));
        }
        taken
    }

    /// Waits for the changes that others caused: the highest election ids are kept by and by.
    fn settle(&self) {
        let _ = self.runtime.block_on(self.device.change(true, |_| Ok(())));
    }
}
