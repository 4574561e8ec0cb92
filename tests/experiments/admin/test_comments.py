"""Comments at the results of an experiment: who may write, read and delete them, and what they may contain."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from config.models import Environment
from experiments.admin.comments import read_comments
from experiments.lifecycle.changes import create_experiment, delete_experiment
from experiments.models import COMMENT_LENGTH, Comment, Experiment
from tests.admin import messages_of, revision, sign_in, text_of
from tests.conftest import ACTOR, NOON
from tests.experiments.admin.results.test_pages import address
from tests.factories import ExperimentFactory

pytestmark = pytest.mark.django_db
HERE = {"opened_in": "production"}


@pytest.fixture
def running() -> Experiment:
    made: Experiment = ExperimentFactory(key="button", running=True)
    return made


def deletion(comment: Comment) -> str:
    return reverse("admin:experiments_experiment_comment_delete", args=[comment.experiment_id, comment.pk])


def test_comment__of_somebody__is_shown_escaped_with_who_and_when(running: Experiment) -> None:
    client, before = sign_in(), revision()
    response = client.post(address(running, "comment"), {"text": " <b>Why?</b>\r\nBecause.  ", **HERE})
    assert response.url == f"{address(running)}#comments"
    comment = Comment.objects.get()
    assert (comment.author, comment.text) == ("ada", "<b>Why?</b>\nBecause.")
    page = client.get(address(running))
    assert "Comments Your comment Comment ada " in text_of(page)
    assert "&lt;b&gt;Why?&lt;/b&gt;" in page.content.decode()
    assert "<b>Why?" not in page.content.decode()
    assert revision() == before  # comments are no configuration


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  \n ", "Write something first."),
        ("x" * (COMMENT_LENGTH + 1), "A comment has at most 4,000 characters. This one has 4,001."),
        ("a\0b", "A comment cannot contain this character: U+0000."),
    ],
)
def test_comment__that_cannot_be_stored__stays_in_the_form_with_the_reason(
    running: Experiment, text: str, words: str
) -> None:
    response = sign_in().post(address(running, "comment"), {"text": text, **HERE})
    assert response.status_code == 200
    assert response.context["comments"].typed == text
    assert words in text_of(response)
    assert not Comment.objects.exists()


def test_comment__opened_in_another_environment__is_not_stored(running: Experiment) -> None:
    response = sign_in().post(address(running, "comment"), {"text": "Good.", "opened_in": "staging"})
    assert "have switched to Production since" in text_of(response)
    assert not Comment.objects.exists()


def test_comment__of_a_viewer__is_refused_and_has_no_form(running: Experiment) -> None:
    Comment.objects.create(experiment=running, author="bo", text="Seen by all.", at=NOON)
    viewer = sign_in("experiments.view_experiment")
    page = text_of(viewer.get(address(running)))
    assert "bo 31 Jan 2026, 12:00 Seen by all." in page
    assert "Your comment" not in page
    assert viewer.post(address(running, "comment"), {"text": "No.", **HERE}).status_code == 403
    assert viewer.post(deletion(Comment.objects.get()), HERE).status_code == 403
    assert Comment.objects.count() == 1


def test_comment__of_its_author_alone__can_be_deleted(running: Experiment) -> None:
    client = sign_in()
    client.post(address(running, "comment"), {"text": "Mine.", **HERE})
    mine = Comment.objects.get()
    assert f'action="{deletion(mine)}"' in client.get(address(running)).content.decode()
    other = sign_in(username="bo")
    assert f'action="{deletion(mine)}"' not in other.get(address(running)).content.decode()
    response = other.post(deletion(mine), HERE)
    assert messages_of(response) == ["There is no such comment of yours, so nothing is deleted."]
    assert Comment.objects.count() == 1
    assert client.get(deletion(mine)).url == address(running)
    assert messages_of(client.post(deletion(mine), HERE)) == ["Your comment is deleted."]
    assert not Comment.objects.exists()


def test_comment__of_another_experiment__is_not_deleted_by_its_address(running: Experiment) -> None:
    client, other = sign_in(), ExperimentFactory(key="other", running=True)
    client.post(address(other, "comment"), {"text": "Mine.", **HERE})
    mine = Comment.objects.get()
    client.post(reverse("admin:experiments_experiment_comment_delete", args=[running.pk, mine.pk]), HERE)
    assert Comment.objects.count() == 1


def test_comments__after_the_account_is_gone__keep_the_name(running: Experiment) -> None:
    client = sign_in()
    client.post(address(running, "comment"), {"text": "Still here.", **HERE})
    User.objects.get(username="ada").delete()
    assert "ada" in text_of(sign_in(username="bo").get(address(running)))
    assert Comment.objects.get().user is None


def test_comments__of_a_draft_that_is_deleted__go_with_it(production: Environment) -> None:
    common: dict[str, Any] = {"environment": production, "actor": ACTOR, "now": NOON}
    variants = [{"key": "a", "weight": 1}, {"key": "b", "weight": 1}]
    draft = create_experiment(key="draft", variants=variants, **common)
    Comment.objects.create(experiment=draft, author="bo", text="Not yet.", at=NOON)
    delete_experiment(key="draft", **common)
    assert not Comment.objects.exists()


@pytest.mark.parametrize("count", [1, 21])
def test_comments__any_number__come_in_pages_newest_first(
    running: Experiment, rf: Any, django_assert_num_queries: Any, count: int
) -> None:
    for number in range(count):
        Comment.objects.create(experiment=running, author="bo", text=f"Comment {number}.", at=NOON)
    with django_assert_num_queries(1):
        first = read_comments(rf.get("/"), running)
    assert first.shown[0].text == f"Comment {count - 1}."
    assert (len(first.shown), first.has_more) == (min(count, 20), count == 21)
    assert [comment.text for comment in read_comments(rf.get("/?comments=2"), running).shown] == (
        ["Comment 0."] if count == 21 else []
    )
    assert read_comments(rf.get("/?comments=none"), running).number == 1
