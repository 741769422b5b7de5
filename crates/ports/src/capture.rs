//! Capture files, pcap and pcapng: reads them frame by frame, and writes them.
//!
//! The framing (which bytes are the next record) is read here, so that an error can name the byte of the file and the
//! packet; `pcap-file` parses the contents of a record.

use crate::PortError;
use pcap_file::pcap::{PcapHeader, PcapWriter};
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, Endianness, PcapError};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of bytes of a frame in a capture; more means that the file is corrupt. This is Wireshark's limit for
/// Ethernet.
pub const CAPTURED_FRAME_MAX: usize = 256 << 10;
/// Maximum number of bytes of a pcapng block: a frame and its options, or the name table of a long capture.
const BLOCK_MAX: usize = 16 << 20;

const PCAP_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 16;
/// Type, length, and the byte-order magic that a section header has in this place.
const BLOCK_START_BYTES: usize = 12;
/// Is the same in both byte orders.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reads a capture file frame by frame: pcap (micro- and nanoseconds) or pcapng, in either byte order, of Ethernet.
/// Times are not read; frames that the capturing tool truncated are returned as they are.
#[derive(Debug)]
pub struct CaptureReader<R: Read = BufReader<File>> {
    source: Source<R>,
    format: Format,
    frame: Vec<u8>,
}

enum Format {
    Pcap(Endianness),
    PcapNg(Box<Sections>),
}

/// The declarations of a pcapng file so far.
struct Sections {
    parser: PcapNgParser,
    endianness: Endianness,
}

/// The bytes, and the current position for messages.
#[derive(Debug)]
struct Source<R> {
    reader: R,
    name: String,
    /// Number of bytes consumed.
    offset: u64,
    /// Number of frames returned.
    packets: u64,
}

impl CaptureReader {
    /// Opens `path` and reads its header.
    ///
    /// # Errors
    ///
    /// It cannot be opened, is not a capture, or not one of Ethernet.
    pub fn open(path: &Path) -> Result<CaptureReader, PortError> {
        let file = p4jet_files::open(path).map_err(|error| cannot_open(path, &error))?;
        CaptureReader::new(BufReader::with_capacity(1 << 18, file), path.display().to_string())
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> PortError {
    let message = format!("cannot open capture {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => PortError::environment(message),
        _ => PortError::input(message),
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads a capture from `reader`; messages call it `name`.
    ///
    /// # Errors
    ///
    /// It is not a capture, or not one of Ethernet.
    pub fn new(reader: R, name: String) -> Result<CaptureReader<R>, PortError> {
        let mut source = Source { reader, name, offset: 0, packets: 0 };
        let mut start = [0; PCAP_HEADER_BYTES];
        if !source.read_or_end(&mut start[..4], "capture header")? {
            return Err(source.wrong("the file is empty: expected a pcap or pcapng header"));
        }
        let format = if start[..4] == SECTION_HEADER {
            let (endianness, block) = source.block(SECTION_HEADER, None)?;
            let (_, parser) =
                PcapNgParser::new(&block).map_err(|error| source.wrong_field("section header", &error))?;
            Format::PcapNg(Box::new(Sections { parser, endianness }))
        } else {
            source.read(&mut start[4..], "pcap header")?;
            let (_, header) = PcapHeader::from_slice(&start).map_err(|_| {
                source.wrong(format!(
                    "found the bytes {:02x} {:02x} {:02x} {:02x} at its start: expected a pcap file (a1 b2 c3 d4 or \
                     a1 b2 3c 4d, in either order) or a pcapng file (0a 0d 0d 0a)",
                    start[0], start[1], start[2], start[3]
                ))
            })?;
            source.check_link(header.datalink)?;
            Format::Pcap(header.endianness)
        };
        Ok(CaptureReader { source, format, frame: Vec::new() })
    }

    /// Returns the next frame; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// The file is truncated, corrupt, or cannot be read. Then the reader is no longer usable.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, PortError> {
        let found = match &mut self.format {
            Format::Pcap(endianness) => self.source.next_record(*endianness, &mut self.frame)?,
            Format::PcapNg(sections) => self.source.next_in_sections(sections, &mut self.frame)?,
        };
        self.source.packets += u64::from(found);
        Ok(found.then_some(&self.frame[..]))
    }
}

impl<R: Read> Source<R> {
    /// Reads the next record of a pcap file into `frame`.
    fn next_record(&mut self, endianness: Endianness, frame: &mut Vec<u8>) -> Result<bool, PortError> {
        let mut header = [0; RECORD_HEADER_BYTES];
        if !self.read_or_end(&mut header, "packet header")? {
            return Ok(false);
        }
        let len = number(endianness, &header[8..12]);
        if len > CAPTURED_FRAME_MAX {
            return Err(self.wrong(format!(
                "the packet claims {len} captured bytes, more than {CAPTURED_FRAME_MAX}: the file is corrupt"
            )));
        }
        frame.resize(len, 0);
        self.read(frame, "packet data")?;
        Ok(true)
    }

    /// Reads the next packet of a pcapng file into `frame`.
    fn next_in_sections(&mut self, sections: &mut Sections, frame: &mut Vec<u8>) -> Result<bool, PortError> {
        loop {
            let mut kind = [0; 4];
            if !self.read_or_end(&mut kind, "block")? {
                return Ok(false);
            }
            let (endianness, block) = self.block(kind, Some(sections.endianness))?;
            sections.endianness = endianness;
            if kind == SECTION_HEADER {
                let (_, parser) =
                    PcapNgParser::new(&block).map_err(|error| self.wrong_field("section header", &error))?;
                sections.parser = parser;
                continue;
            }
            if !matches!(number(endianness, &kind), 1..=3 | 6) {
                // Names, statistics, comments, blocks of other tools.
                continue;
            }
            let (_, parsed) = sections
                .parser
                .next_block(&block)
                .map_err(|error| self.wrong_field("pcapng block", &error))?;
            let (interface, data) = match &parsed {
                Block::InterfaceDescription(description) => {
                    self.check_link(description.linktype)?;
                    continue;
                }
                Block::EnhancedPacket(packet) => (packet.interface_id as usize, &packet.data[..]),
                Block::Packet(packet) => (usize::from(packet.interface_id), &packet.data[..]),
                Block::SimplePacket(packet) => {
                    // Its data is padded to 4 bytes; data shorter than the frame was truncated to the snap length.
                    let snap = sections.parser.interfaces().first().map_or(0, |interface| interface.snaplen);
                    let snap = if snap == 0 { u32::MAX } else { snap };
                    let len = (packet.original_len.min(snap) as usize).min(packet.data.len());
                    (0, &packet.data[..len])
                }
                _ => continue,
            };
            let interfaces = sections.parser.interfaces().len();
            if interface >= interfaces {
                return Err(self.wrong(format!(
                    "the packet names capture interface {interface}, but the section declares {interfaces}"
                )));
            }
            if data.len() > CAPTURED_FRAME_MAX {
                return Err(self.wrong(format!(
                    "the packet has {} captured bytes, more than {CAPTURED_FRAME_MAX}: the file is corrupt",
                    data.len()
                )));
            }
            frame.clear();
            frame.extend_from_slice(data);
            return Ok(true);
        }
    }

    /// Reads a whole pcapng block, whose `kind` has been read. `endianness` is that of the section; a section header
    /// has its own.
    fn block(
        &mut self,
        kind: [u8; 4],
        endianness: Option<Endianness>,
    ) -> Result<(Endianness, Vec<u8>), PortError> {
        let mut block = vec![0; BLOCK_START_BYTES];
        block[..4].copy_from_slice(&kind);
        self.read(&mut block[4..], "block header")?;
        let endianness = match (kind == SECTION_HEADER, &block[8..12], endianness) {
            (true, [0x1a, 0x2b, 0x3c, 0x4d], _) => Endianness::Big,
            (true, [0x4d, 0x3c, 0x2b, 0x1a], _) => Endianness::Little,
            (false, _, Some(endianness)) => endianness,
            (_, magic, _) => {
                return Err(self.wrong(format!(
                    "the section header has byte-order magic {magic:02x?}: expected 1a 2b 3c 4d in either order"
                )));
            }
        };
        let len = number(endianness, &block[4..8]);
        if !(BLOCK_START_BYTES..=BLOCK_MAX).contains(&len) || !len.is_multiple_of(4) {
            return Err(self.wrong(format!(
                "the pcapng block claims {len} bytes: expected a multiple of 4 from {BLOCK_START_BYTES} to {BLOCK_MAX}"
            )));
        }
        block.resize(len, 0);
        self.read(&mut block[BLOCK_START_BYTES..], "block")?;
        Ok((endianness, block))
    }

    fn check_link(&self, link: DataLink) -> Result<(), PortError> {
        // The upper half holds flags about frame check sequences.
        if u32::from(link) & 0xffff == u32::from(DataLink::ETHERNET) {
            return Ok(());
        }
        Err(self.wrong(format!(
            "its link type is {} ({link:?}): expected {} (Ethernet); captured on the `any` device or on a tunnel?",
            u32::from(link),
            u32::from(DataLink::ETHERNET)
        )))
    }

    /// Fills `into`, or reports what is missing.
    fn read(&mut self, into: &mut [u8], what: &str) -> Result<(), PortError> {
        let found = self.read_some(into)?;
        if found < into.len() {
            return Err(self.wrong(format!(
                "the file ends within the {what}: expected {} more bytes, found {found}; was it cut short?",
                into.len()
            )));
        }
        Ok(())
    }

    /// Fills `into`. False if the file ends right here.
    fn read_or_end(&mut self, into: &mut [u8], what: &str) -> Result<bool, PortError> {
        let found = self.read_some(into)?;
        if found > 0 && found < into.len() {
            return Err(self.wrong(format!(
                "the file ends within the {what}: expected {} bytes, found {found}; was it cut short?",
                into.len()
            )));
        }
        Ok(found > 0)
    }

    /// Reads until `into` is full or the file ends.
    fn read_some(&mut self, into: &mut [u8]) -> Result<usize, PortError> {
        let mut found = 0;
        while found < into.len() {
            match self.reader.read(&mut into[found..]) {
                Ok(0) => break,
                Ok(n) => found += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let message =
                        format!("cannot read capture {}: {error} (byte {})", self.name, self.offset);
                    return Err(match error.kind() {
                        // A directory can be opened.
                        io::ErrorKind::IsADirectory => PortError::input(message),
                        _ => PortError::environment(message),
                    });
                }
            }
        }
        self.offset += found as u64;
        Ok(found)
    }

    fn wrong_field(&self, what: &str, error: &PcapError) -> PortError {
        self.wrong(format!("bad {what}: {error}"))
    }

    fn wrong(&self, what: impl std::fmt::Display) -> PortError {
        PortError::input(format!(
            "capture {}, packet {}, before byte {}: {what}",
            self.name,
            self.packets + 1,
            self.offset
        ))
    }
}

fn number(endianness: Endianness, bytes: &[u8]) -> usize {
    let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
    match endianness {
        Endianness::Big => u32::from_be_bytes(bytes) as usize,
        Endianness::Little => u32::from_le_bytes(bytes) as usize,
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Pcap(_) => "pcap",
            Format::PcapNg(_) => "pcapng",
        })
    }
}

/// Returns all frames of the capture file `path`.
///
/// # Errors
///
/// Like [`CaptureReader`].
pub fn read_capture(path: &Path) -> Result<Vec<Vec<u8>>, PortError> {
    let mut reader = CaptureReader::open(path)?;
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        frames.push(frame.to_vec());
    }
    Ok(frames)
}

/// Writes a pcap file of Ethernet frames, microseconds, little-endian.
#[derive(Debug)]
pub struct CaptureWriter<W: Write = BufWriter<File>> {
    /// `None` after [`CaptureWriter::finish`].
    writer: Option<W>,
    name: String,
}

impl CaptureWriter {
    /// Creates `path`, or empties it.
    ///
    /// # Errors
    ///
    /// It cannot be created or written.
    pub fn create(path: &Path) -> Result<CaptureWriter, PortError> {
        let file = p4jet_files::create(path).map_err(|error| {
            PortError::environment(format!(
                "cannot create capture {}: {error}",
                PathBuf::from(path).display()
            ))
        })?;
        CaptureWriter::new(BufWriter::with_capacity(1 << 18, file), path.display().to_string())
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Writes a capture to `writer`; messages call it `name`.
    ///
    /// # Errors
    ///
    /// The header cannot be written.
    pub fn new(writer: W, name: String) -> Result<CaptureWriter<W>, PortError> {
        let header = PcapHeader {
            endianness: Endianness::Little,
            snaplen: CAPTURED_FRAME_MAX as u32,
            ..PcapHeader::default()
        };
        match PcapWriter::with_header(writer, header) {
            Ok(writer) => Ok(CaptureWriter { writer: Some(writer.into_writer()), name }),
            Err(error) => Err(cannot_write(&name, &error)),
        }
    }

    /// Appends a frame, at `time` since the epoch.
    ///
    /// # Errors
    ///
    /// It cannot be written (the disk is full), or is longer than [`CAPTURED_FRAME_MAX`].
    pub fn write(&mut self, time: Duration, frame: &[u8]) -> Result<(), PortError> {
        self.write_cut(time, frame, frame.len() as u32)
    }

    /// Like [`Self::write`], for a frame of `whole` bytes of which only the first are written.
    ///
    /// # Errors
    ///
    /// As for [`Self::write`].
    pub fn write_cut(&mut self, time: Duration, frame: &[u8], whole: u32) -> Result<(), PortError> {
        let Some(writer) = &mut self.writer else {
            return Err(PortError::environment(format!("capture {} is closed", self.name)));
        };
        if frame.len() > CAPTURED_FRAME_MAX {
            let why = format!("a frame of {} bytes, expected at most {CAPTURED_FRAME_MAX}", frame.len());
            return Err(PortError::environment(format!("cannot write capture {}: {why}", self.name)));
        }
        // Written by hand, because `PcapWriter` does not release what it has buffered.
        let mut header = [0; RECORD_HEADER_BYTES];
        let fields = [time.as_secs() as u32, time.subsec_micros(), frame.len() as u32, whole];
        for (bytes, field) in header.chunks_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        let written = writer.write_all(&header).and_then(|()| writer.write_all(frame));
        written.map_err(|error| cannot_write(&self.name, &PcapError::IoError(error)))
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    ///
    /// Not everything could be written.
    pub fn flush(&mut self) -> Result<(), PortError> {
        match self.writer.as_mut().map(Write::flush) {
            Some(Err(error)) => Err(cannot_write(&self.name, &PcapError::IoError(error))),
            _ => Ok(()),
        }
    }

    /// Writes out what is buffered and closes the file. Calling it again does nothing.
    ///
    /// # Errors
    ///
    /// Not everything could be written.
    pub fn finish(&mut self) -> Result<(), PortError> {
        match self.writer.take().map(|mut writer| writer.flush()) {
            Some(Err(error)) => Err(cannot_write(&self.name, &PcapError::IoError(error))),
            _ => Ok(()),
        }
    }
}

fn cannot_write(name: &str, error: &PcapError) -> PortError {
    let why = match error {
        PcapError::IoError(error) => error.to_string(),
        other => other.to_string(),
    };
    PortError::environment(format!("cannot write capture {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Vec<Vec<u8>>, PortError> {
        let mut reader = CaptureReader::new(bytes, "test.pcap".into())?;
        let mut frames = Vec::new();
        while let Some(frame) = reader.next_frame()? {
            frames.push(frame.to_vec());
        }
        Ok(frames)
    }

    fn written(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = CaptureWriter::new(&mut bytes, "out.pcap".into()).unwrap();
        for (i, frame) in frames.iter().enumerate() {
            writer.write(Duration::from_micros(i as u64), frame).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        bytes
    }

    fn put(bytes: &mut Vec<u8>, big: bool, value: u32) {
        bytes.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
    }

    fn pcap(big: bool, magic: u32, link: u32, frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, big, magic);
        put(&mut bytes, big, if big { 0x2_0004 } else { 0x4_0002 });
        // Snap length 96 but longer frames: some tools write such files.
        bytes.extend(words(big, &[0, 0, 96, link], &[]));
        for frame in frames {
            bytes.extend(words(big, &[1, 999_999, frame.len() as u32, 4000], frame));
        }
        bytes
    }

    fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let len = 12 + body.len().next_multiple_of(4) as u32;
        put(&mut bytes, big, kind);
        put(&mut bytes, big, len);
        bytes.extend(body);
        bytes.resize(len as usize - 4, 0);
        put(&mut bytes, big, len);
        bytes
    }

    fn words(big: bool, values: &[u32], rest: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        values.iter().for_each(|&value| put(&mut bytes, big, value));
        bytes.extend(rest);
        bytes
    }

    fn pcapng(big: bool, link: u32, frames: &[&[u8]]) -> Vec<u8> {
        let version = if big { 1 << 16 } else { 1 };
        let mut bytes =
            block(big, 0x0a0d_0d0a, &words(big, &[0x1a2b_3c4d, version, u32::MAX, u32::MAX], &[]));
        bytes.extend(block(big, 1, &words(big, &[if big { link << 16 } else { link }, 0], &[])));
        bytes.extend(block(big, 0xbad, b"of some other tool"));
        for (i, frame) in frames.iter().enumerate() {
            let len = frame.len() as u32;
            bytes.extend(match i % 2 {
                0 => block(big, 6, &words(big, &[0, 0, 0, len, len], frame)),
                _ => block(big, 3, &words(big, &[len], frame)),
            });
        }
        bytes
    }

    #[test]
    fn written_packets_are_read() {
        let frames = [vec![], vec![1; 60], vec![2; 1514], vec![3; 65000]];
        assert_eq!(read(&written(&frames)).unwrap(), frames);
    }

    #[test]
    fn every_kind_and_byte_order_is_read() {
        let frames: [&[u8]; 3] = [&[1; 61], &[2; 1514], &[3; 99]];
        for big in [false, true] {
            for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
                assert_eq!(read(&pcap(big, magic, 1, &frames)).unwrap(), frames);
            }
            assert_eq!(read(&pcapng(big, 1, &frames)).unwrap(), frames);
            // Sections of either order may follow each other.
            let both = [pcapng(big, 1, &frames), pcapng(!big, 1, &frames)].concat();
            assert_eq!(read(&both).unwrap(), [frames, frames].concat());
        }
    }

    #[track_caller]
    fn check_error(bytes: &[u8], expect: &str) {
        let error = read(bytes).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.exit_status()), (expect, 1));
    }

    #[test]
    fn errors_have_place_and_cause() {
        let frame: &[u8] = &[1; 60];
        let good = pcap(false, 0xa1b2_c3d4, 1, &[frame, frame]);
        check_error(
            &[],
            "capture test.pcap, packet 1, before byte 0: the file is empty: expected a pcap or pcapng header",
        );
        check_error(
            b"#!/bin/sh and so on and so on",
            "capture test.pcap, packet 1, before byte 24: found the bytes 23 21 2f 62 at its start: expected a pcap \
             file (a1 b2 c3 d4 or a1 b2 3c 4d, in either order) or a pcapng file (0a 0d 0d 0a)",
        );
        check_error(
            &good[..10],
            "capture test.pcap, packet 1, before byte 10: the file ends within the pcap header: expected 20 more \
             bytes, found 6; was it cut short?",
        );
        check_error(
            &good[..good.len() - 1],
            "capture test.pcap, packet 2, before byte 175: the file ends within the packet data: expected 60 more \
             bytes, found 59; was it cut short?",
        );
        check_error(
            &good[..105],
            "capture test.pcap, packet 2, before byte 105: the file ends within the packet header: expected 16 bytes, \
             found 5; was it cut short?",
        );
        check_error(
            &pcap(true, 0xa1b2_c3d4, 113, &[]),
            "capture test.pcap, packet 1, before byte 24: its link type is 113 (LINUX_SLL): expected 1 (Ethernet); \
             captured on the `any` device or on a tunnel?",
        );
        check_error(
            &pcapng(false, 101, &[]),
            "capture test.pcap, packet 1, before byte 48: its link type is 101 (RAW): expected 1 (Ethernet); captured \
             on the `any` device or on a tunnel?",
        );
        let mut corrupt = good.clone();
        corrupt[24 + 8..24 + 12].copy_from_slice(&[0xff; 4]);
        check_error(
            &corrupt,
            "capture test.pcap, packet 1, before byte 40: the packet claims 4294967295 captured bytes, more than \
             262144: the file is corrupt",
        );
        let mut ng = pcapng(false, 1, &[]);
        ng.extend(block(false, 6, &words(false, &[7, 0, 0, 60, 60], frame)));
        check_error(
            &ng,
            "capture test.pcap, packet 1, before byte 172: the packet names capture interface 7, but the section \
             declares 1",
        );
        ng.truncate(ng.len() - 2);
        check_error(
            &ng,
            "capture test.pcap, packet 1, before byte 170: the file ends within the block: expected 80 more bytes, \
             found 78; was it cut short?",
        );
    }

    #[test]
    fn a_missing_file_is_wrong_input() {
        let error = CaptureReader::open(Path::new("/no/such/file.pcap")).unwrap_err();
        assert_eq!(error.exit_status(), 1);
        assert!(error.to_string().contains("/no/such/file.pcap"), "{error}");
        let error = CaptureWriter::create(Path::new("/no/such/file.pcap")).unwrap_err();
        assert_eq!(error.exit_status(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
        }

        #[test]
        fn damaged_captures_never_panic(
            kind in 0..4,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            keep in any::<prop::sample::Index>(),
        ) {
            let frames: [&[u8]; 3] = [&[1; 61], &[2; 150], &[3; 9]];
            let mut bytes = match kind {
                0 => pcap(false, 0xa1b2_c3d4, 1, &frames),
                1 => pcap(true, 0xa1b2_3c4d, 1, &frames),
                2 => pcapng(false, 1, &frames),
                _ => pcapng(true, 1, &frames),
            };
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(keep.index(bytes.len() * 2));
            let _ = read(&bytes);
        }
    }
}
