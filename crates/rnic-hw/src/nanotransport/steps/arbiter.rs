//! Steps of the arbiter with strict priorities.

use super::random::Random;
use super::{BlockSteps, Encode, Step, WORDS, padded};

/// Bitmap of the ports with a request; port 0 has the highest priority.
struct Requests(u32);

/// Bitmap of the port with a grant; 0 without a request.
struct Grant(u32);

impl Encode for Requests {
    fn words(&self) -> [u32; WORDS] {
        padded(&[0, 0, self.0])
    }
}

impl Encode for Grant {
    fn words(&self) -> [u32; WORDS] {
        padded(&[self.0])
    }
}

pub(super) struct ArbiterSteps {
    random: Random,
}

impl ArbiterSteps {
    pub(super) fn new(seed: u64) -> ArbiterSteps {
        ArbiterSteps { random: Random::new(seed) }
    }
}

impl BlockSteps for ArbiterSteps {
    fn extend(&mut self, steps: &mut Vec<Step>) {
        let requests = self.random.bits32() & self.random.bits32() & 0xffff;
        // In many steps, only ports of low priority have a request.
        let requests = requests & (0xffff << self.random.below(17));
        let kind = if requests == 0 { "no request" } else { "request" };
        let lowest_bit = requests & requests.wrapping_neg();
        steps.push(Step::new(kind, &Requests(requests), &Grant(lowest_bit)));
    }
}
