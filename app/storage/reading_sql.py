"""The statement of the reading: one pool's window, as `samples.summarise` defines it."""

from __future__ import annotations

from sqlalchemy import text

# The rows of the window are few (10 s of one pool), however many there are in all: the three index
# ranges below are all that is read. `rated` gives each request its x, as `samples.x_of` says it.
READING = text("""
    WITH params AS (
        SELECT CAST(:now AS timestamptz) AS now, CAST(:window_s AS float8) AS window_s,
               CAST(:now AS timestamptz) - make_interval(secs => :window_s) AS since,
               CAST(:target_ms AS float8) AS target_ms, CAST(:first_ms AS float8) AS first_ms,
               CAST(:token_ms AS float8) AS token_ms, CAST(:short AS int) AS short,
               CAST(:people AS int) AS people, CAST(:answered_at AS timestamptz) AS answered_at
    ), seen AS (
        SELECT r.*, true AS ended FROM interactive_requests r, params p
        WHERE r.pool = :pool AND r.finished_at > p.since AND r.finished_at <= p.now
        UNION ALL
        SELECT r.*, false FROM interactive_requests r, params p
        WHERE r.state IN ('queued','running') AND r.pool = :pool
    ), timed AS (
        SELECT s.*,
            extract(epoch FROM coalesce(s.finished_at, p.now) - s.submitted_at) * 1000 AS age_ms,
            extract(epoch FROM s.first_token_at - s.submitted_at) * 1000 AS to_first_ms,
            extract(epoch FROM s.started_at - s.submitted_at) * 1000 AS queue_ms,
            s.task_type = 'chat' AS streams,
            coalesce(s.completion_tokens <= p.short, false) AS is_short
        FROM seen s, params p
    ), spaced AS (
        SELECT t.*, CASE WHEN t.to_first_ms IS NOT NULL AND t.completion_tokens > 1
            THEN (t.age_ms - t.to_first_ms) / (t.completion_tokens - 1) END AS per_token_ms,
            CASE WHEN t.ended AND t.error_code IS NULL
            THEN t.age_ms - coalesce(t.queue_ms, 0) END AS place_ms
        FROM timed t
    ), rated AS (
        SELECT t.*, p.people IS NULL OR t.ahead < p.people AS ours,
            p.answered_at IS NULL OR t.submitted_at >= p.answered_at AS is_new, CAST(CASE
            WHEN t.error_code IS NOT NULL THEN CASE WHEN t.error_code = ANY(:overload)
                THEN greatest(t.age_ms / p.first_ms, 1.0000000000000002) END
            WHEN NOT t.streams OR (t.ended AND (t.is_short OR t.to_first_ms IS NULL))
                THEN t.age_ms / p.target_ms
            WHEN t.to_first_ms IS NULL THEN t.age_ms / p.first_ms
            WHEN t.per_token_ms IS NULL OR t.is_short THEN t.to_first_ms / p.first_ms
            ELSE greatest(t.to_first_ms / p.first_ms, t.per_token_ms / p.token_ms)
            END AS float8) AS x
        FROM spaced t, params p
    ), arrived AS (
        SELECT count(*) AS arrivals FROM interactive_requests r, params p
        WHERE r.pool = :pool AND r.submitted_at > p.since AND r.submitted_at <= p.now
    ), moves AS (
        SELECT submitted_at AS at, 1 AS step FROM seen
        UNION ALL SELECT finished_at, -1 FROM seen WHERE ended
    ), heights AS (
        SELECT at, sum(step) OVER (ORDER BY at, step) AS height FROM moves
    ), batch AS (
        SELECT count(*) FILTER (WHERE lease_until > clock_timestamp()) AS flying FROM chunks
        WHERE state = 'leased' AND pool = :pool
    ), calls AS (
        SELECT sum(b.prompt_tokens + b.completion_tokens) AS tokens, avg(b.seconds) AS seconds,
            count(b.first_token_s) AS timed,
            sum(b.prompt_tokens + b.completion_tokens) / nullif(sum(b.seconds), 0) AS load,
            sum(b.seconds * (b.prompt_tokens + b.completion_tokens / 2.0))
                FILTER (WHERE b.completion_tokens > 0) AS held, sum(b.seconds) AS place_s,
            percentile_disc(0.95) WITHIN GROUP (ORDER BY CASE
                WHEN b.first_token_s IS NULL THEN NULL
                WHEN b.completion_tokens <= p.short THEN b.seconds * 1000 / p.target_ms
                ELSE greatest(b.first_token_s * 1000 / p.first_ms,
                    (b.seconds - b.first_token_s) * 1000
                        / nullif(b.completion_tokens - 1, 0) / p.token_ms)
                END) AS x_p95
        FROM batch_calls b, params p
        WHERE b.pool = :pool AND b.ended_at > p.since AND b.ended_at <= p.now
          AND b.error_code IS NULL
    ), refusals AS (
        SELECT count(*) AS refused FROM endpoints, params p
        WHERE pool = :pool AND refusals > 0 AND updated_at > p.now - interval '1.5 seconds'
          AND error_code IN ('rate_limited','overloaded')
    )
    SELECT
        (SELECT arrivals FROM arrived) AS arrivals,
        count(*) FILTER (WHERE ended AND error_code IS NULL) AS completions,
        count(*) FILTER (WHERE ended AND error_code IS NOT NULL) AS failed,
        CAST((SELECT refused FROM refusals) AS int) AS refused,
        CAST(percentile_disc(0.50) WITHIN GROUP (ORDER BY age_ms)
            FILTER (WHERE ended AND error_code IS NULL) AS float8) AS p50_ms,
        CAST(percentile_disc(0.95) WITHIN GROUP (ORDER BY age_ms)
            FILTER (WHERE ended AND error_code IS NULL) AS float8) AS p95_ms,
        CAST(percentile_disc(0.99) WITHIN GROUP (ORDER BY age_ms)
            FILTER (WHERE ended AND error_code IS NULL) AS float8) AS p99_ms,
        CAST(percentile_disc(0.95) WITHIN GROUP (ORDER BY to_first_ms) AS float8)
            AS first_token_p95_ms,
        CAST(percentile_disc(0.95) WITHIN GROUP (ORDER BY per_token_ms)
            FILTER (WHERE ended AND error_code IS NULL) AS float8) AS per_token_p95_ms,
        CAST(percentile_disc(0.95) WITHIN GROUP (ORDER BY queue_ms) AS float8)
            AS queue_wait_p95_ms,
        CAST(count(*) FILTER (WHERE x > 1) AS float8) / nullif(count(x), 0) AS share_over_target,
        count(x) FILTER (WHERE ours) AS samples,
        count(*) FILTER (WHERE ours AND is_new AND x > 1.0) AS misses,
        count(*) FILTER (WHERE ours AND x > 0.8) AS nears,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY x) FILTER (WHERE ours) AS x_p95,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY x) AS everybody_x_p95,
        CAST(coalesce(max(age_ms) FILTER (WHERE NOT ended AND to_first_ms IS NULL AND streams), 0)
            / 1000 AS float8) AS everybody_waits_s,
        count(x) FILTER (WHERE NOT ours) AS not_attributable,
        count(*) FILTER (WHERE NOT ended AND to_first_ms IS NULL AND streams) AS waiting,
        count(*) FILTER (WHERE NOT ended AND to_first_ms IS NULL AND streams AND ours
            AND age_ms > (SELECT first_ms FROM params)) AS waiting_over_target,
        CAST(coalesce(max(age_ms) FILTER (WHERE NOT ended AND to_first_ms IS NULL AND streams
            AND ours), 0) / 1000 AS float8) AS oldest_waiting_s,
        count(*) FILTER (WHERE NOT ended) AS interactive_in_flight,
        CAST(coalesce((SELECT max(height) FROM heights, params
            WHERE at > now - interval '1 second'), 0) AS int) AS moved_peak,
        CAST((SELECT flying FROM batch) AS int) AS batch_in_flight,
        (SELECT CAST(tokens AS float8) FROM calls) AS batch_tokens,
        (SELECT CAST(seconds * 1000 AS float8) FROM calls) AS batch_round_trip_ms,
        CAST((SELECT timed FROM calls) AS int) AS batch_samples,
        (SELECT CAST(x_p95 AS float8) FROM calls) AS batch_x_p95,
        (SELECT CAST(load AS float8) FROM calls) AS batch_tokens_per_place_s,
        CAST(sum(coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0))
            FILTER (WHERE ended AND error_code IS NULL) AS float8)
            / nullif(CAST(sum(age_ms - queue_ms) FILTER (WHERE ended AND error_code IS NULL)
                AS float8) / 1000, 0) AS people_tokens_per_place_s,
        (SELECT CAST(coalesce(held, 0) / nullif(place_s, 0) AS float8) FROM calls)
            AS batch_kv_tokens,
        CAST(coalesce(sum(place_ms * (coalesce(prompt_tokens, 0) + completion_tokens / 2.0))
            FILTER (WHERE completion_tokens > 0), 0) AS float8)
            / nullif(CAST(sum(place_ms) AS float8), 0) AS people_kv_tokens
    FROM rated
""")
