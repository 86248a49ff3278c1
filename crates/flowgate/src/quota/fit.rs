//! How the states of two quotas share the 112 bits of one word.
//!
//! Each quota has a theoretical arrival time. It is counted in ticks from a common base, so that one token and one nanosecond
//! are whole numbers of ticks. The stored time is at most the burst ahead of the last grant. So a share has to hold the burst
//! in ticks, and some room for the clock to move until the base follows it:
//!
//! ```text
//!   "10/s burst 5; 1000/day"       burst of 5 at 1 tick per ns:  500,000,000 ticks         29 bits
//!                                  burst of 1000, likewise:      86,400,000,000,000 ticks  47 bits
//! ```
//!
//! The rest goes to the share whose clock can move the least. If the two bursts take more than 112 bits in ticks, times are
//! kept in *grains*, which are powers of two of a tick. Each grant is then rounded up, toward refusing. Grains are as fine as
//! possible, and never coarser than 1/1024 of a unit.

use super::{Quota, TICKS_END};

/// The bits that both states share.
pub(crate) const STATE_BITS: u32 = 112;

/// The least that the clock can move until the base has to follow: 17 ms. Most quotas leave hours.
const LEAST_ROOM_NS: u128 = 1 << 24;

/// A unit is at least this many grains, or its price in ticks.
const LEAST_GRAINS_PER_UNIT: u64 = 1 << 10;

/// One quota's part of the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bits: u32,
    /// The exponent of two of the ticks in a grain; 0: exact.
    pub(crate) grain: u32,
}

/// What a quota needs of its share.
#[derive(Clone, Copy)]
struct Need {
    burst_ticks: u128,
    unit_ticks: u64,
    ticks_per_ns: u64,
    grain: u32,
}

impl Need {
    const fn of(quota: &Quota) -> Self {
        let ratio = quota.ratio();
        Self {
            burst_ticks: quota.burst_units() as u128 * ratio.nanos as u128,
            unit_ticks: ratio.nanos,
            ticks_per_ns: ratio.units,
            grain: 0,
        }
    }

    /// The burst, the least room, and a grain that the base may be off by on either side.
    const fn bits(self) -> u32 {
        let ticks = self.burst_ticks + self.ticks_per_ns as u128 * LEAST_ROOM_NS;
        u128::BITS - ((ticks >> self.grain) + 2).leading_zeros()
    }

    const fn grains_per_unit(self) -> u64 {
        self.unit_ticks >> self.grain
    }

    /// How far the clock can move in a share of `bits`.
    const fn room_ns(self, bits: u32) -> u128 {
        let end = 1_u128 << (bits + self.grain);
        (end - self.burst_ticks) / self.ticks_per_ns as u128
    }
}

/// The whole word, for one quota alone.
pub(crate) const ALONE: [Share; 2] = [
    Share {
        bits: STATE_BITS,
        grain: 0,
    },
    Share { bits: 0, grain: 0 },
];

// What a quota alone may ask for, with a bit for the room.
const _: () = assert!(TICKS_END < 1 << (STATE_BITS - 1));

/// The shares of two quotas; none if they do not fit together.
pub(crate) const fn shares(first: &Quota, second: &Quota) -> Option<[Share; 2]> {
    let (mut a, mut b) = (Need::of(first), Need::of(second));
    while a.bits() + b.bits() > STATE_BITS {
        let coarser = if a.grains_per_unit() >= b.grains_per_unit() {
            &mut a
        } else {
            &mut b
        };
        if coarser.grains_per_unit() / 2 < LEAST_GRAINS_PER_UNIT {
            return None;
        }
        coarser.grain += 1;
    }
    let (mut a_bits, mut b_bits) = (a.bits(), b.bits());
    while a_bits + b_bits < STATE_BITS {
        if a.room_ns(a_bits) <= b.room_ns(b_bits) {
            a_bits += 1;
        } else {
            b_bits += 1;
        }
    }
    Some([
        Share {
            bits: a_bits,
            grain: a.grain,
        },
        Share {
            bits: b_bits,
            grain: b.grain,
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;

    fn shares_of(first: &str, second: &str) -> Option<[Share; 2]> {
        let quota = |text: &str| text.parse::<Quota>().unwrap();
        shares(&quota(first), &quota(second))
    }

    fn grains(first: &str, second: &str) -> [u32; 2] {
        let shares = shares_of(first, second).unwrap();
        assert_eq!(shares[0].bits + shares[1].bits, STATE_BITS);
        shares.map(|share| share.grain)
    }

    #[test]
    fn c8_the_usual_pairs_are_exact() {
        for second in ["10/s", "1000/s", "1000000/s", "997/s"] {
            for sustained in ["1/min", "1000/h", "1000/day", "9973/day", "1000000000/30d"] {
                assert_eq!(grains(second, sustained), [0, 0], "{second}; {sustained}");
            }
        }
    }

    /// Every count from 1 to 10⁹ per second, minute, hour, day or 30 days, with every burst up to 10⁹: the worst are those
    /// that share no factor with the period.
    #[test]
    fn c8_every_pair_fits_and_is_kept_to_a_millionth_of_a_unit() {
        let counts = [1, 2, 997, 1_000_000, 999_983, 999_999_937, 1_000_000_000];
        let quotas = ["s", "min", "h", "day", "30d"].iter().flat_map(|period| {
            let with_bursts = move |count| {
                [1, 1_000, 1_000_000_000].map(|burst| format!("{count}/{period} burst {burst}"))
            };
            counts.iter().flat_map(with_bursts)
        });
        let quotas: Vec<Quota> = quotas.map(|text| text.parse().unwrap()).collect();
        for first in &quotas {
            for second in &quotas {
                let shares = shares(first, second).unwrap();
                for (share, quota) in shares.iter().zip([first, second]) {
                    let per_unit = quota.ratio().nanos >> share.grain;
                    assert!(
                        share.grain == 0 || per_unit >= 1_000_000,
                        "{first}; {second}: {per_unit}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_share_holds_the_burst_and_leaves_the_clock_room_to_move() {
        let pairs = [
            ("10/s burst 5", "1000/day"),
            ("999983/s", "999999937/30d"),
            ("2147483648/ns", "1/292y"),
            ("1TiB/s", "100TiB/day"),
        ];
        for (first, second) in pairs {
            let shares = shares_of(first, second).unwrap();
            for (share, text) in shares.iter().zip([first, second]) {
                let need = Need {
                    grain: share.grain,
                    ..Need::of(&text.parse().unwrap())
                };
                assert!(need.room_ns(share.bits) >= LEAST_ROOM_NS, "{text}");
            }
        }
    }

    /// A second quota with a burst of 1 fits beside every first one with a burst of 1: of a pair that does not fit, a burst is
    /// to blame.
    #[test]
    fn every_pair_of_rates_fits_with_bursts_of_1() {
        let rates = [
            "2147483648/ns burst 1",
            "1/ns burst 1",
            "1/292y",
            "2147483647/292y burst 1",
        ];
        for first in rates {
            for second in rates {
                assert!(shares_of(first, second).is_some(), "{first}; {second}");
            }
        }
        let largest = "1/ns burst 18446744073709551615";
        assert!(shares_of("1/ns", largest).is_some());
        assert_eq!(shares_of(largest, largest), None);
    }
}
