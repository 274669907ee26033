//! The fields of a host's resources: CPU, memory and disk, as a person writes them.

use std::str::FromStr;

use longhaul_core::units::{Bytes, UnitError, quantity};
use schemars::JsonSchema;
use serde::Deserialize;

use super::wrap::{At, Either, Quantity};

/// What is said of a host's CPUs.
pub(crate) type CpuField = Either<Quantity<CpuAmount>, At<CpuSpec>>;

/// A number of CPUs of a given speed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "CPUs, like `50 %`, `2 CPUs` or `{ count: 2, speed: 0.8 ref }`"
)]
pub(crate) struct CpuSpec {
    /// How many CPUs its programs have. Default: 1.
    pub(crate) count: Option<At<u32>>,
    /// The speed of each of them: in `ref`, the reference that `longhaul calibrate` measures against,
    /// or as a share of one of the machine's CPUs. Default: 100 %.
    pub(crate) speed: Option<Quantity<CpuSpeed>>,
}

/// Limits of a disk.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a disk, like `{ read: 20 MB/s, write: 10 MB/s, iops: 200 }`"
)]
pub(crate) struct DiskSpec {
    /// Bytes read per second. Default: unlimited.
    pub(crate) read: Option<Quantity<ByteRate>>,
    /// Bytes written per second. Default: unlimited.
    pub(crate) write: Option<Quantity<ByteRate>>,
    /// Reads per second, and as many writes per second. Default: unlimited.
    pub(crate) iops: Option<At<u32>>,
}

/// CPU time in thousandths of one CPU, and whether it was written as a share of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuAmount {
    pub(crate) thousandths: u64,
    pub(crate) is_share: bool,
}

impl FromStr for CpuAmount {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: &[(&str, u64)] = &[("%", 10), ("CPUs", 1_000), ("CPU", 1_000)];
        Ok(Self {
            thousandths: quantity(text, "number of CPUs", "50 %` or `2 CPUs", UNITS)?,
            is_share: text.trim_end().ends_with('%'),
        })
    }
}

/// How fast a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuSpeed {
    /// In thousandths of one of the machine's.
    OfMachine(u64),
    /// In thousandths of the reference.
    OfReference(u64),
}

impl FromStr for CpuSpeed {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: &[(&str, u64)] = &[("ref", 1_000), ("%", 10)];
        let thousandths = quantity(text, "speed of a CPU", "0.8 ref` or `50 %", UNITS)?;
        Ok(if text.trim_end().ends_with('%') {
            Self::OfMachine(thousandths)
        } else {
            Self::OfReference(thousandths)
        })
    }
}

/// Bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRate(pub(crate) u64);

impl FromStr for ByteRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXAMPLE: &str = "20 MB/s";
        if text.trim_end().ends_with("bit/s") {
            return Err(UnitError {
                problem: format!(
                    "`{}` is in bits, and disks count bytes",
                    crate::text::error::shown(text.trim())
                ),
                example: EXAMPLE,
            });
        }
        const UNITS: &[(&str, u64)] = &[
            ("B/s", 1),
            ("kB/s", 1_000),
            ("MB/s", 1_000_000),
            ("GB/s", 1_000_000_000),
            ("KiB/s", 1 << 10),
            ("MiB/s", 1 << 20),
            ("GiB/s", 1 << 30),
        ];
        quantity(text, "rate of a disk", EXAMPLE, UNITS).map(Self)
    }
}

/// What a host has for its programs, as the file says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResourceFields<'a> {
    pub(crate) cpu: Option<&'a CpuField>,
    pub(crate) memory: Option<&'a Quantity<Bytes>>,
    pub(crate) disk: Option<&'a At<DiskSpec>>,
}
