"""The register of known faults: the tests that hold each row of the three tables of PITFALLS.md.

A row is (what goes wrong, in our words; the tests, as `path under tests/::name`). `GAPS` names
what a row promises and nothing does yet, `INSTEAD` what does not apply to us.
"""

from __future__ import annotations

Row = tuple[str, tuple[str, ...]]

_CONFIG = "unit/worker/test_config.py"
_WORKERS = "integration/worker/test_workers.py"
_EXECUTION = "integration/services/test_execution.py"
_CALLS = "integration/services/test_calls_and_rings.py"
_HEALTH = "integration/services/test_endpoint_health.py"
_COLLECTIONS = "integration/services/test_collections.py"
_SUBMISSION = "integration/services/test_submission.py"
_CLAIMING = "integration/services/test_claiming.py"
_SCHEDULING = "integration/services/test_scheduling.py"
_WIRE = "integration/inference/test_wire.py"
_STORMS = "integration/services/test_storms.py"
_STRANGE = "integration/services/test_strange_replies.py"
_LIMITS = "integration/services/test_limits_of_endpoints.py"
_COUNTS = "integration/services/test_counts.py"
_RESUMED = "integration/services/test_resumed_evaluations.py"
_SESSIONS = "integration/worker/test_sessions.py"
_DATABASE = "integration/storage/test_database.py"
_APART = "integration/services/test_pools_apart.py"
_IN_HEALTH = "integration/cli/test_health.py"
_SURVIVAL = "acceptance/test_survival.py"
_STORY = "acceptance/test_story.py"
_COMPOSE = "unit/test_compose.py"
_CSV = "unit/storage/test_sources_csv.py"
_JSONL = "unit/storage/test_sources_jsonl.py"
_OPENING = "unit/storage/test_sources_opening.py"
_READING = "unit/storage/test_sources_reading.py"
_SCORERS = "unit/kinds/scorers/test_scorers.py"
_EVALUATION = "unit/domain/evaluation/test_evaluation.py"


def _row(what: str, *tests: str) -> Row:
    return what, tests


CELERY: tuple[Row, ...] = (
    _row(
        "a changed batch limit has no effect",
        f"{_CLAIMING}::test_24_claimers_never_pass_a_moving_limit",
        f"{_CLAIMING}::test_mutant_that_locks_and_counts_in_one_statement_passes_the_limit",
        f"{_EXECUTION}::test_a_paused_job_stops_between_micro_batches_and_loses_nothing",
        f"{_CONFIG}::test_no_worker_is_steered_by_broadcast_and_no_task_waits_in_the_broker",
    ),
    _row(
        "urgent work waits behind other work",
        f"{_CONFIG}::test_what_celery_really_runs_with",
        "unit/local/test_plan.py::test_each_worker_has_one_queue_a_stable_name_and_its_threads",
        "unit/worker/test_queues.py::test_the_two_brokers_count_the_other_way",
        "integration/worker/test_priority.py"
        "::test_our_numbers_told_to_valkey_as_they_are_would_turn_the_order_round",
    ),
    _row(
        "a worker of two queues alternates",
        f"{_WORKERS}::test_a_worker_of_several_queues_is_refused_with_the_right_commands",
        f"{_WORKERS}::test_a_shared_worker_starts_when_it_is_asked_for",
    ),
    _row(
        "jobs run more than once",
        f"{_EXECUTION}::test_a_lost_lease_writes_nothing_and_gives_nothing_back",
        f"{_EXECUTION}::test_mutant_without_the_fence_gives_away_what_another_works_on",
        f"{_WORKERS}::test_two_beats_and_two_control_workers_decide_once_a_tick",
        f"{_CONFIG}::test_redis_waits_longer_than_any_message_can_be_held",
        "unit/settings/test_diagnose.py::test_each_fault_names_its_line_and_what_is_right",
    ),
    _row(
        "work of a killed worker is late or lost",
        f"{_WORKERS}::test_a_killed_workers_chunks_are_back_as_soon_as_it_is",
        f"{_SURVIVAL}::test_each_process_is_killed_in_turn_and_the_job_completes",
    ),
    _row(
        "a task that kills its process never ends",
        f"{_CONFIG}::test_what_celery_really_runs_with",
        f"{_EXECUTION}::test_a_poison_item_is_cornered_and_the_rest_is_done",
        "unit/domain/test_chunks.py::test_a_crash_rearms_then_splits_then_buries",
    ),
    _row(
        "retries fill the worker",
        f"{_EXECUTION}::test_server_errors_are_tried_again_in_a_chunk_of_their_own",
        f"{_CONFIG}::test_no_worker_is_steered_by_broadcast_and_no_task_waits_in_the_broker",
    ),
    _row(
        "RabbitMQ closes the channel of a long task",
        f"{_CONFIG}::test_what_celery_really_runs_with",
        "unit/domain/test_chunks.py::test_chunks_are_alike_in_calls_not_in_items",
        f"{_IN_HEALTH}::test_work_that_nobody_claims_is_a_fault_until_somebody_does",
        f"{_IN_HEALTH}::test_what_waits_for_something_else_is_no_fault_of_the_worker",
    ),
    _row(
        "publishing a task an item",
        f"{_CALLS}::test_never_more_rings_than_free_places",
    ),
    _row(
        "the broker is wiped or restarted",
        f"{_SURVIVAL}::test_a_flushed_broker_is_no_loss",
        f"{_COMPOSE}::test_a_queue_is_never_evicted_and_what_people_ask_is_on_no_disk",
        "integration/local/test_bare.py::test_the_broker_is_empty_and_asks_for_a_password",
    ),
    _row(
        "submitting hangs without a broker",
        f"{_STORY}::test_without_a_broker_submitting_takes_a_moment_and_the_job_runs_later",
        f"{_WORKERS}::test_a_bell_without_a_broker_costs_less_than_a_second",
        "integration/cli/test_submit.py::test_a_broker_that_is_down_costs_no_time_and_no_error",
    ),
    _row(
        "a task starts before its row is there",
        f"{_CALLS}::test_nobody_is_rung_for_a_job_that_is_being_loaded",
        f"{_SCHEDULING}::test_a_launcher_killed_between_insert_and_ring_leaves_one_job",
        "integration/cli/test_submit.py::test_a_submission_rings_where_there_is_a_broker",
    ),
    _row(
        "a cancel is forgotten",
        f"{_EXECUTION}::test_a_cancelled_job_stays_cancelled_and_keeps_its_results",
        "integration/cli/test_jobs.py::test_a_cancelled_job_stays_so",
    ),
    _row(
        "a shutdown loses or repeats work",
        f"{_WORKERS}::test_on_term_a_worker_hands_its_chunk_back_and_goes",
        f"{_EXECUTION}::test_on_shutdown_the_chunk_goes_back_with_its_results",
        f"{_CONFIG}::test_quit_goes_to_postgres_alone",
    ),
    _row(
        "connections shared by a fork",
        f"{_WORKERS}::test_a_job_runs_through_a_real_worker",
        f"{_SESSIONS}::test_sessions_are_bounded_in_time_and_number_and_are_each_processes_own",
        f"{_DATABASE}::test_a_forked_process_opens_sessions_of_its_own",
        f"{_WIRE}::test_a_forked_child_opens_connections_of_its_own",
    ),
    _row(
        "a transaction is open during a call",
        f"{_CALLS}::test_no_transaction_is_open_during_a_call",
        f"{_CALLS}::test_mutant_that_holds_one_is_seen",
        "integration/services/test_telling.py::test_no_transaction_is_open_while_it_is_sent",
        f"{_SESSIONS}::test_sessions_are_bounded_in_time_and_number_and_are_each_processes_own",
        f"{_DATABASE}::test_sessions_have_their_bounds_whoever_opens_them",
        f"{_DATABASE}::test_a_session_that_idles_in_a_transaction_is_ended_and_the_next_one_works",
        f"{_DATABASE}::test_no_connection_left_is_a_database_that_does_not_answer",
    ),
    _row(
        "claims get slower by the hour",
        "integration/storage/test_hot_queries.py"
        "::test_a_hot_statement_reads_only_through_its_partial_index",
        "integration/storage/test_hot_queries.py::test_heartbeats_are_hot_updates",
        "integration/cli/test_doctor.py"
        "::test_an_old_snapshot_and_the_dead_rows_it_keeps_are_named_until_it_ends",
    ),
    _row(
        "a scheduled run comes twice, never or at the wrong hour",
        f"{_SCHEDULING}::test_ticks_and_launchers_of_many_control_workers_launch_once",
        f"{_SCHEDULING}::test_what_three_missed_days_become",
        "unit/domain/test_schedules.py::test_clock_changes_do_what_the_documentation_says",
        "integration/worker/test_schedules.py"
        "::test_doubled_control_workers_and_beats_launch_each_run_once_and_tell_it_once",
    ),
    _row(
        "beat falls silent with the database",
        f"{_CONFIG}::test_what_celery_really_runs_with",
        "unit/local/test_plan.py::test_beat_and_flower_wait_for_the_broker_only",
        "integration/worker/test_beat.py::test_beat_ticks_on_while_there_is_no_database",
    ),
    _row(
        "a chord never ends",
        f"{_CONFIG}::test_no_worker_is_steered_by_broadcast_and_no_task_waits_in_the_broker",
        f"{_SUBMISSION}::test_a_job_of_no_items_completes",
    ),
    _row(
        "Flower forgets",
        f"{_STORY}::test_flower_finds_a_job_and_keeps_its_history",
        "unit/local/test_files.py"
        "::test_a_broken_flower_history_is_moved_aside_and_a_good_one_is_kept",
    ),
    _row(
        "Flower is open to anybody",
        f"{_COMPOSE}::test_flower_asks_for_a_password_and_listens_on_this_machine_only",
        "integration/local/test_whole_stack.py"
        "::test_flower_asks_for_the_password_that_status_points_to",
        "unit/local/test_plan.py"
        "::test_flower_is_left_out_when_it_is_not_wanted_and_never_runs_with_a_password_it_splits",
        "unit/test_deploy.py::test_nothing_is_open_to_the_world",
    ),
    _row(
        "texts are seen in Flower, broker and logs",
        f"{_WORKERS}::test_flower_sees_ids_and_numbers_and_never_a_text",
        "integration/worker/test_interactive.py"
        "::test_no_prompt_and_no_answer_reaches_events_or_logs",
        "unit/test_logs.py::test_what_looks_like_a_secret_is_masked",
    ),
    _row(
        "a series of metrics for each job",
        "integration/cli/test_report.py::test_metrics_tell_how_things_stand_and_name_no_job",
    ),
    _row(
        "a misspelt setting is ignored",
        f"{_WORKERS}::test_a_misspelt_queue_or_setting_stops_the_start",
        "unit/settings/test_diagnose.py::test_an_unknown_variable_is_answered_with_the_nearest",
        f"{_CONFIG}::test_what_celery_really_runs_with",
    ),
    _row("pickle", f"{_CONFIG}::test_what_celery_really_runs_with"),
    _row(
        "an address of a transport that kombu lacks",
        "unit/settings/test_diagnose.py::test_each_fault_names_its_line_and_what_is_right",
    ),
)

MODELS: tuple[Row, ...] = (
    _row(
        "many requests for one call when refused",
        f"{_STORMS}::test_in_a_storm_of_refusals_each_request_is_one_call_of_a_row",
        f"{_STORMS}::test_mutant_whose_client_tries_again_by_itself_is_seen",
        f"{_STORMS}::test_a_persons_request_is_sent_once_to_each_endpoint_however_many_ask",
        f"{_WORKERS}::test_a_job_runs_through_a_real_worker",
        f"{_WIRE}::test_each_fault_of_embeddings_is_its_own_leaf_once",
        f"{_WIRE}::test_each_fault_of_a_stream_is_its_own_leaf_once",
        f"{_EXECUTION}::test_an_item_fails_for_good_after_its_last_attempt",
        f"{_HEALTH}::test_mutant_that_forgets_the_cool_down_hammers",
    ),
    _row(
        "a worker sleeps as long as it is asked to",
        f"{_STORMS}"
        "::test_whatever_it_asks_for_the_endpoint_cools_down_and_nobody_waits_in_a_thread",
        f"{_STORMS}::test_what_makes_no_sense_or_is_next_to_nothing_gets_our_own_backoff",
        f"{_EXECUTION}::test_retry_after_frees_the_place_and_counts_no_attempt",
        f"{_HEALTH}::test_an_endpoint_gets_no_request_before_the_time_it_asked_for",
        "unit/domain/test_replies.py::test_retry_after_is_read_in_every_form_and_bounded",
    ),
    _row(
        "a spent quota is retried",
        f"{_CALLS}::test_a_spent_quota_pauses_the_job_after_one_request",
        f"{_STORMS}::test_where_nobody_has_quota_left_the_job_pauses_with_the_reason",
        "unit/domain/test_replies.py::test_each_refusal_is_the_right_leaf",
    ),
    _row(
        "more tokens a minute than allowed",
        "integration/services/test_rates.py"
        "::test_eight_workers_never_pass_the_budget_in_any_window",
        "integration/services/test_rates.py"
        "::test_mutant_that_checks_and_then_calls_passes_the_budget",
        "integration/services/test_one_bucket.py"
        "::test_jobs_and_people_of_two_processes_never_pass_it_in_any_window",
        "integration/services/test_one_bucket.py"
        "::test_mutant_that_soon_forgets_what_was_spent_passes_it",
    ),
    _row(
        "a request of too many tokens or inputs",
        "unit/domain/test_packing.py::test_nothing_is_lost_and_both_bounds_hold",
        "integration/services/test_budgets.py"
        "::test_a_text_that_is_known_to_be_too_long_fails_before_it_is_sent",
        f"{_LIMITS}::test_each_model_of_an_endpoint_gets_requests_of_its_own_size",
        f"{_LIMITS}::test_mutant_that_knows_only_the_endpoints_own_limits_is_refused",
        f"{_LIMITS}::test_two_endpoints_of_one_model_get_what_each_takes",
        f"{_LIMITS}::test_limits_that_nobody_declared_are_found_by_halving",
    ),
    _row(
        "one bad text fails those beside it",
        f"{_EXECUTION}::test_one_bad_input_fails_alone_at_the_cost_of_few_calls",
    ),
    _row(
        "a text is cut and nobody knows",
        f"{_COLLECTIONS}::test_long_texts_may_be_refused_or_cut_and_the_result_says_so",
        f"{_COLLECTIONS}::test_long_texts_are_split_found_by_their_piece_and_shrink_again",
    ),
    _row(
        "blank texts",
        f"{_EXECUTION}::test_blank_texts_are_recorded_as_empty_and_never_sent",
        "contracts/test_kinds.py::test_a_blank_text_is_recorded_as_empty_and_not_sent",
    ),
    _row(
        "a vector on another's text",
        f"{_WIRE}::test_shuffled_vectors_land_on_their_own_texts",
        f"{_STRANGE}::test_vectors_in_any_order_are_stored_with_their_own_texts",
        "unit/domain/test_inference.py::test_the_order_of_a_reply_never_matters",
        "unit/domain/test_inference.py"
        "::test_a_reply_that_cannot_be_right_is_refused_with_its_reason",
    ),
    _row(
        "vectors that are none",
        f"{_EXECUTION}::test_spoilt_vectors_never_reach_the_table",
        f"{_EXECUTION}::test_another_dimension_than_the_collections_is_refused",
        f"{_SUBMISSION}::test_models_are_never_mixed_in_a_collection",
        "unit/domain/test_inference.py"
        "::test_a_reply_that_cannot_be_right_is_refused_with_its_reason",
    ),
    _row(
        "characters and numbers that Postgres refuses",
        "unit/domain/test_cleaning.py::test_cleaned_json_can_be_written_and_read_back",
        "unit/domain/test_cleaning.py::test_every_fault_inside_json_is_flagged",
        f"{_JSONL}::test_control_characters_and_lone_surrogates_are_cleaned_not_refused",
        "integration/storage/test_sql_source.py::test_what_postgres_refuses_is_cleaned",
        "unit/kinds/test_generate.py"
        "::test_what_postgres_refuses_is_cleaned_out_of_an_answer_and_flagged",
        f"{_STRANGE}::test_an_error_text_that_postgres_refuses_is_stored_all_the_same",
        f"{_STRANGE}::test_a_count_of_tokens_that_cannot_be_is_none",
        f"{_STRANGE}::test_what_a_job_is_given_and_postgres_refuses_is_refused_before_it",
        "unit/worker/test_interactive_tasks.py"
        "::test_half_a_character_is_mended_before_anybody_shares_a_call_with_it",
    ),
    _row(
        "a key twice in a batch, and two jobs in each other's way",
        f"{_READING}::test_duplicates_are_found_as_by_a_dictionary",
        "integration/storage/test_vector_store.py::test_two_jobs_over_the_same_rows_both_end",
        "integration/storage/test_vector_store.py::test_mutant_that_does_not_sort_deadlocks",
    ),
    _row(
        "a judge's failure is taken for a score",
        f"{_SCORERS}::TestJudge::test_whatever_is_no_verdict_is_invalid_and_no_score",
        f"{_EVALUATION}::TestSummary::test_what_has_no_score_is_counted_and_in_no_mean",
        f"{_EVALUATION}::TestSummary::test_one_nan_makes_no_average_nan",
        f"{_EVALUATION}::TestSummary::test_past_a_share_of_errors_there_is_no_verdict",
        "integration/cli/test_eval.py::test_a_judge_that_gives_no_verdict_is_no_score",
        f"{_RESUMED}::test_only_what_is_scored_is_kept_when_a_run_is_taken_up_again",
    ),
    _row(
        "a judge changes its mind",
        f"{_SCORERS}::TestJudge::test_repeats_differ_in_their_seed",
        f"{_EVALUATION}::TestSummary::test_the_spread_is_how_far_the_mean_moves_between_repeats",
        "integration/cli/test_eval.py::test_repeats_show_how_much_the_answers_differ",
    ),
    _row(
        "a resumed run keeps old failures",
        f"{_RESUMED}::test_only_what_is_scored_is_kept_when_a_run_is_taken_up_again",
        f"{_RESUMED}::test_those_without_a_verdict_can_be_tried_again_alone",
        f"{_RESUMED}::test_mutant_that_looks_at_no_status_asks_for_all_of_it",
        f"{_COUNTS}::test_what_failed_before_is_sent_again_by_another_job_and_nothing_else",
        f"{_EXECUTION}::test_failed_items_can_be_retried_by_code",
        f"{_EXECUTION}::test_mutant_without_the_skip_pays_twice",
    ),
    _row(
        "files as they are",
        f"{_OPENING}::test_every_encoding_gives_the_same_records",
        f"{_CSV}::test_a_cell_of_sixty_lines_is_one_record_and_lines_are_still_right",
        f"{_CSV}::test_large_cells_are_read",
        f"{_CSV}::test_the_delimiter_is_found_from_the_header",
        f"{_JSONL}::test_a_broken_line_is_named",
        f"{_READING}::test_lenient_counts_good_blank_cleaned_and_bad",
    ),
    _row(
        "a provider's batch that hides its errors",
        f"{_CONFIG}::test_no_batch_of_a_provider_is_used",
        f"{_COUNTS}::test_counts_are_the_results_at_every_moment_of_a_bad_day",
        f"{_COUNTS}::test_mutant_that_counts_what_was_there_already_is_seen",
        "integration/cli/test_submit.py::test_waiting_for_a_job_with_failed_items_is_exit_code_1",
    ),
    _row(
        "all is embedded again each night",
        f"{_EXECUTION}::test_a_rerun_over_unchanged_content_makes_no_call",
        f"{_EXECUTION}::test_changed_content_is_embedded_again_and_replaces_the_vector",
        f"{_COUNTS}::test_fields_that_are_not_embedded_may_change_without_a_call",
        "unit/domain/test_cleaning.py::test_a_content_hash_depends_on_text_and_on_each_parameter",
    ),
    _row(
        "vectors of old or deleted rows",
        f"{_COLLECTIONS}::test_the_newer_text_wins_whoever_writes_last",
        f"{_COLLECTIONS}::test_mutant_without_asking_for_newer_jobs_old_words_win",
        f"{_COLLECTIONS}::test_what_a_source_gives_no_more_is_deleted_and_only_that",
        f"{_COLLECTIONS}::test_verify_finds_every_fault",
    ),
    _row(
        "a dead endpoint stops every job",
        f"{_APART}::test_the_other_pools_jobs_have_all_their_places",
        f"{_APART}::test_mutant_that_counts_all_pools_as_one_stands_still",
        f"{_HEALTH}::test_five_failures_in_a_row_open_the_breaker_for_all_processes",
        f"{_HEALTH}::test_mutant_whose_breaker_never_opens_knocks_at_the_dead_one",
        "acceptance/test_many_endpoints.py"
        "::test_a_dead_a_slow_a_refusing_and_a_spoiling_endpoint_cost_no_item_and_no_person",
    ),
    _row(
        "progress stays below 100 %",
        f"{_COUNTS}::test_counts_are_the_results_at_every_moment_of_a_bad_day",
        f"{_COUNTS}::test_mutant_whose_retries_are_counted_twice_is_seen",
        f"{_EXECUTION}::test_failed_items_can_be_retried_by_code",
        f"{_EXECUTION}::test_one_bad_input_fails_alone_at_the_cost_of_few_calls",
        "unit/domain/test_jobs.py::test_an_empty_job_is_done",
    ),
    _row(
        "an index slows down a load",
        f"{_COLLECTIONS}"
        "::test_the_index_is_built_after_a_load_used_by_searches_and_dropped_before_the_next",
        "unit/domain/test_indexing.py::test_moves",
    ),
    _row(
        "a client in a loop that is closed",
        f"{_CONFIG}::test_nothing_but_the_lane_and_the_simulated_endpoint_has_an_event_loop",
        f"{_SESSIONS}::test_a_forked_process_makes_calls_of_every_sort_again_and_again",
        f"{_WIRE}::test_a_forked_child_opens_connections_of_its_own",
    ),
    _row(
        "one job submitted twice",
        f"{_SUBMISSION}::test_twenty_submissions_at_once_make_one_job",
        f"{_STORY}::test_twenty_submissions_at_once_are_one_job",
    ),
)

_LANE = "integration/services/test_lane.py"
_BLAME = "integration/services/test_blame.py"
_INCOMING = "unit/inference/test_incoming.py"
_FLOWER = "integration/worker/test_flower.py"
_LEAVING = "integration/worker/test_leaving.py"

SEEN: tuple[Row, ...] = (
    _row(
        "people wait in our own lane",
        f"{_LANE}::test_a_lone_request_is_one_round_trip_and_its_end_another",
        f"{_LANE}::test_a_hundred_a_second_take_about_a_round_trip_each",
        f"{_LANE}::test_those_who_come_together_are_one_group_of_two_round_trips_at_most",
        f"{_LANE}::test_who_waits_costs_looks_and_not_a_lock_each",
        "integration/services/test_lane_storm.py"
        "::test_who_rush_in_at_once_get_no_more_than_the_places_and_mutants_do",
    ),
    _row(
        "one input stops its job and slows people",
        f"{_BLAME}::test_one_poisonous_item_fails_with_its_code_and_the_others_are_done",
        f"{_BLAME}::test_mutant_that_always_blames_the_endpoint_never_ends_and_holds_up_everybody",
        f"{_BLAME}::test_an_outage_in_the_middle_of_a_job_counts_no_attempt",
        "acceptance/test_measures.py"
        "::test_two_poisonous_items_fail_alone_and_neither_their_job_nor_people_notice",
    ),
    _row(
        "an error kept as an answer",
        f"{_INCOMING}::test_an_error_in_a_200_is_its_true_code_wherever_it_comes",
        f"{_INCOMING}::test_what_has_no_text_is_no_success",
        f"{_INCOMING}::test_any_json_ends_in_an_answer_or_in_a_code",
    ),
    _row(
        "a broken stream passes for a whole one",
        f"{_WIRE}::test_broken_streams_are_told_apart",
        f"{_LANE}::test_an_error_of_a_stream_is_raised_where_it_is_listened_to",
    ),
    _row("SDKs raise on keep-alives"),
    _row(
        "streams over a broker",
        f"{_LANE}::test_an_answer_is_streamed_as_it_comes",
    ),
    _row(
        "a caller who hung up keeps the model busy",
        f"{_LANE}::test_who_hangs_up_has_the_call_closed_and_the_place_freed",
        f"{_LEAVING}::test_a_streaming_call_is_closed_when_its_caller_goes",
        f"{_LEAVING}::test_who_leaves_the_line_is_never_sent",
        f"{_LEAVING}::test_without_the_look_nobody_notices_that_a_caller_went",
    ),
    _row("one line breaks the reader of a batch file"),
    _row("a create that is sent again is doubled"),
    _row("lines in no file after a cancel"),
    _row("a large upload kills the process"),
    _row("the seventh tab hangs"),
    _row("a page takes minutes at a million rows"),
    _row(
        "Flower forgets last night",
        f"{_FLOWER}::test_after_a_night_the_jobs_chunks_are_on_the_first_page",
        f"{_FLOWER}::test_mutant_whose_ticks_tell_of_themselves_forgets_the_evening",
    ),
    _row(
        "a frozen broker holds a command",
        "integration/worker/test_frozen_broker.py"
        "::test_whoever_submits_is_back_at_once_and_the_job_is_there",
        "integration/worker/test_frozen_broker.py"
        "::test_a_command_that_waits_for_answers_says_that_there_are_none",
    ),
    _row(
        "another program declared the queue first",
        "integration/worker/test_other_apps.py"
        "::test_what_readme_shows_works_before_our_workers_are_there_and_after",
        "integration/worker/test_other_apps.py"
        "::test_a_queue_that_others_declared_otherwise_is_used_as_it_is_and_told",
    ),
    _row(
        "a metric reads another number than the answer",
        "unit/kinds/scorers/test_final_number.py"
        "::test_the_number_is_the_one_that_a_reader_takes_from_it",
        "unit/kinds/scorers/test_final_number.py"
        "::test_what_cannot_be_read_is_invalid_and_never_another_number",
    ),
)

INSTEAD: dict[str, str] = {
    "a provider's batch that hides its errors": (
        "no batch API of a provider is used, so there are no two files to read; held instead: the "
        "counts of our own jobs are their results at every moment, and whoever waits for a "
        "completed job with failed items gets exit status 1"
    ),
}
"""What a row asks for and we have no use of, and what is held in its place."""

_NO_FRONT = "there is no HTTP front yet"

GAPS: dict[str, str] = {
    "SDKs raise on keep-alives": _NO_FRONT,
    "one line breaks the reader of a batch file": _NO_FRONT,
    "a create that is sent again is doubled": _NO_FRONT,
    "lines in no file after a cancel": _NO_FRONT,
    "a large upload kills the process": _NO_FRONT,
    "the seventh tab hangs": "there is no page yet",
    "a page takes minutes at a million rows": "there is no page yet",
}
"""What a row promises and nothing does yet, by the row's words."""
