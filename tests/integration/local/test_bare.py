import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from app.local.bare import embedded_postgres_at, embedded_valkey_at
from app.local.leftovers import postgres_processes


def test_each_test_gets_its_own_database_with_vectors(database_url):
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT '[1,2]'::vector <-> '[1,3]'").fetchone() == (1.0,)
        connection.execute("CREATE TABLE only_here (n int)")


def test_a_database_is_empty_again_for_the_next_test(database_url):
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert found.fetchone() == (0,)


def test_the_broker_is_empty_and_asks_for_a_password(fresh_broker_url):
    with redis.Redis.from_url(fresh_broker_url) as client:
        assert client.dbsize() == 0
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        port = client.connection_pool.connection_kwargs["port"]
    stranger = redis.Redis(port=port, retry=Retry(NoBackoff(), 0))
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_what_was_written_is_there_at_the_next_start_and_nothing_stays_behind(folder):
    with embedded_postgres_at(folder) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    assert postgres_processes(folder / "postgres") == []
    with embedded_postgres_at(folder) as again, psycopg.connect(again) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (42,)


def on_disk(folder, word):
    """Files below `folder` that hold `word`."""
    return [path.name for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]


def test_messages_survive_the_restart_of_valkey_and_are_on_disk_only_between(folder):
    with embedded_valkey_at(folder) as url, redis.Redis.from_url(url) as client:
        client.lpush("interactive", "where is my parcel")
        assert on_disk(folder, b"parcel") == []
    assert on_disk(folder, b"parcel") == ["dump.rdb"]
    with embedded_valkey_at(folder) as again, redis.Redis.from_url(again) as client:
        assert on_disk(folder, b"parcel") == []
        assert client.rpop("interactive") == b"where is my parcel"
    assert on_disk(folder, b"parcel") == []


def test_what_a_version_before_appended_to_a_file_is_read_once_and_removed(folder):
    with embedded_valkey_at(folder) as url, redis.Redis.from_url(url) as client:
        client.config_set("appendonly", "yes")
        client.lpush("interactive", "where is my parcel")
        client.execute_command("WAITAOF", 1, 0, 20_000)
    assert set(on_disk(folder, b"parcel")) > {"dump.rdb"}
    with embedded_valkey_at(folder) as again, redis.Redis.from_url(again) as client:
        assert on_disk(folder, b"parcel") == []
        assert client.config_get("appendonly") == {"appendonly": "no"}
        assert client.rpop("interactive") == b"where is my parcel"
