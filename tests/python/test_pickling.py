"""What belongs to a session does not survive pickle, and says what to do instead."""

import copy
import multiprocessing
import pickle

import pytest
from conftest import pipeline

import millrace

SESSION = "a session cannot be pickled.* open a session of its own in each process"


def test_a_session_says_that_each_process_opens_its_own(connect, dataset):
    for session in (connect(), millrace.reference(pipeline(), dataset)):
        for whole in (session, session.next_epoch(), session.tables, millrace.zip(one=session)):
            with pytest.raises(millrace.ConfigError, match=SESSION):
                pickle.dumps(whole)
            with pytest.raises(millrace.ConfigError, match=SESSION):
                copy.deepcopy(whole)


def test_a_started_process_does_not_get_a_session(connect):
    process = multiprocessing.get_context("spawn").Process(target=print, args=(connect(),))
    with pytest.raises(millrace.ConfigError, match=SESSION):
        process.start()


def test_a_batch_says_what_to_copy(connect):
    _, batch = next(iter(connect().next_epoch()))
    for kind, whole in (("Batch", batch), ("Tensor", batch["root"])):
        for work in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(millrace.ConfigError, match=f"a {kind} cannot be pickled or copied.*"
                                                           r"\.numpy\(\)\.copy\(\)"):
                work(whole)


def test_a_local_server_says_what_to_give_instead(server):
    with pytest.raises(millrace.ConfigError, match="give its address to other processes"):
        pickle.dumps(server)
