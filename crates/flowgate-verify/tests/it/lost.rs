//! A subject that is lost ends the investigation with its own error.

use flowgate_verify::{
    Investigation, Observation, ProbeBatch, ProbeProgress, ProbeSubject, Question, Simulated,
};

/// Number of the batch that got no response.
#[derive(Debug, PartialEq, Eq)]
struct Lost(usize);

/// A subject that is lost with its batch of this number.
struct LostAt<S> {
    subject: S,
    batch: usize,
    sent: usize,
}

impl<S: ProbeSubject> ProbeSubject for LostAt<S> {
    type Error = Lost;

    fn now_ns(&self) -> u64 {
        self.subject.now_ns()
    }

    fn send(&mut self, batch: &ProbeBatch) -> Result<Vec<Observation>, Lost> {
        if self.sent == self.batch {
            return Err(Lost(self.batch));
        }
        self.sent += 1;
        self.subject.send(batch).map_err(|_| Lost(self.sent))
    }
}

#[test]
fn a_subject_that_is_lost_ends_it_with_its_own_error_in_any_batch() {
    let mut batches = 0;
    let refuses_all = || Simulated::new(|_: Question| false.into());
    let Ok(_) = Investigation::new().run(&mut refuses_all(), &mut |_: ProbeProgress<'_>| {
        batches += 1;
    });
    assert!(batches > 3, "{batches}");
    for batch in 0..batches {
        let mut subject = LostAt {
            subject: refuses_all(),
            batch,
            sent: 0,
        };
        let result = Investigation::new().run(&mut subject, &mut |_| ());
        assert_eq!(result.unwrap_err(), Lost(batch));
    }
}
