"""What a real client makes of our replies: the model behind it is scripted and keeps what it was sent."""

from __future__ import annotations

import re
from base64 import b64encode

import pytest

from orchestrator.adapters.tokens import O200kTokenCounter
from tests.clients.clients import Pictures
from tests.clients.conversation import END, Conversation
from tests.clients.programs import (
    ALL,
    ERROR,
    FAILS,
    FAILS_AGAIN,
    FIRST_LINE,
    LAST_LINE,
    MARK,
    PICTURE,
    PRINTS_42,
    PRINTS_MUCH,
    PRINTS_MUCH_AND_FAILS,
    SHOWS_A_PICTURE,
    output_of_much,
)

MAX_TOKENS_OF_42 = 40
MAX_TOKENS_OF_MUCH = 6000
COUNTER = O200kTokenCounter()

pytestmark = pytest.mark.timeout(300)  # the first test of a client waits for its whole conversation


def test_the_client_runs_every_program_and_comes_to_its_end(conversation: Conversation):
    for program in ALL:
        conversation.reply(program)
    assert not conversation.client.has_model or END in conversation.output


def test_the_client_does_not_try_to_leave_this_machine(conversation: Conversation):
    assert conversation.attempts == []


def test_42_costs_few_tokens(conversation: Conversation):
    sent = conversation.reply(PRINTS_42).sent
    assert re.search(r"(?<!\d)42(?!\d)", sent.text)
    assert COUNTER.count(sent.text) <= MAX_TOKENS_OF_42 + conversation.client.framing_tokens, sent.text


def test_what_was_printed_is_told_once(conversation: Conversation):
    reply = conversation.reply(SHOWS_A_PICTURE)
    assert MARK in reply.sent.text
    assert reply.wire.count(MARK) == 1


def test_no_link_is_sent(conversation: Conversation):
    for program in (PRINTS_42, SHOWS_A_PICTURE, FAILS):
        sent = conversation.reply(program).sent
        assert sent.others == []
        assert "execution://" not in sent.text
        assert "resource_link" not in sent.text


def test_the_text_is_sent_and_not_fields_in_its_place(conversation: Conversation):
    for program in (PRINTS_42, SHOWS_A_PICTURE, FAILS):
        reply = conversation.reply(program)
        assert '"outcome' not in reply.sent.text
        assert "structuredContent" not in reply.wire


def test_the_picture_is_sent_as_it_is(conversation: Conversation):
    reply = conversation.reply(SHOWS_A_PICTURE)
    encoded = b64encode(PICTURE).decode()
    if conversation.client.pictures is Pictures.SHOWN:
        assert [(picture.mime_type, picture.data) for picture in reply.sent.pictures] == [("image/png", PICTURE)]
    else:
        assert reply.sent.pictures == []
    assert (encoded in reply.sent.text) == (conversation.client.pictures is Pictures.SPELLED_OUT)


def test_a_failure_is_told_once_with_its_trace_and_what_was_printed_before(conversation: Conversation):
    for program in (FAILS, FAILS_AGAIN):
        sent = conversation.reply(program).sent
        assert sent.text.count(ERROR) == 1
        assert sent.text.count(MARK) == 1
        assert "in share" in sent.text


def test_a_failure_is_marked_where_the_client_does_so(conversation: Conversation):
    for program in (FAILS, PRINTS_MUCH_AND_FAILS):
        assert conversation.reply(program).sent.marked_as_error == conversation.client.marks_errors
    assert not conversation.reply(PRINTS_42).sent.marked_as_error


def test_of_a_long_output_both_ends_are_sent_within_the_bound(conversation: Conversation):
    sent = conversation.reply(PRINTS_MUCH).sent
    assert FIRST_LINE in sent.text
    assert LAST_LINE in sent.text
    assert COUNTER.count(sent.text) <= MAX_TOKENS_OF_MUCH + conversation.client.framing_tokens


def test_the_offset_that_is_named_is_where_the_shown_beginning_ends(conversation: Conversation):
    for program in (PRINTS_MUCH, PRINTS_MUCH_AND_FAILS):
        text = conversation.reply(program).sent.text.replace("\\n", "\n").replace('\\"', '"')
        offset = int(re.search(r'"offset": (\d+)', text)[1])
        assert output_of_much()[:offset] in text
        assert output_of_much()[: offset + len(FIRST_LINE) + 1] not in text
        assert LAST_LINE in text
