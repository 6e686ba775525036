//! The conformance suite of `inbox-store`: what every database has to do, scenario by scenario.
//!
//! [`exercise`] runs all of it. Each scenario is also a function of its own, so that a test list shows
//! them one by one; a scenario migrates the database it is given, uses a consumer of its own and
//! panics with a sentence when a promise is broken. It knows a database by [`inbox_store::internal::port::Store`], and
//! by [`Probe`].
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod advance;
pub mod claim;
pub mod corrections;
pub mod intake;
pub mod lanes;
pub mod operators;
pub mod ownership;
pub mod parking;
pub mod release;
pub mod remap;
pub mod retention;
pub mod savepoint;
pub mod schema;
pub mod versions;
pub mod watermark;

#[cfg(feature = "postgres")]
mod postgres;
mod probe;
mod scene;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use probe::Probe;

/// Calls `$run!(module::scenario)` for every scenario of the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_scenarios {
    ($run:ident) => {
        $run! { schema {
            the_schema_migrates_once
            the_printed_schema_is_the_migrated_one
            a_migrated_database_has_no_fatal_finding
            a_table_without_its_unique_index_is_a_fatal_finding
        } }
        $run! { claim {
            a_fresh_id_is_claimed_once
            ids_that_are_thought_new_are_claimed_once
            another_content_under_a_known_id_is_seen
            a_claim_counts_the_lanes_that_are_mine
            a_held_aggregate_is_told
            an_event_alone_is_answered_as_among_others
            ids_belong_to_their_consumer
            the_same_id_twice_in_a_claim_is_not_fresh_twice
            a_claim_that_waited_sees_the_other_ones_outcome
            a_claim_of_several_that_waited_tells_nothing_as_fresh
            a_claim_that_was_rolled_back_leaves_nothing
            sorted_claims_of_the_same_ids_never_deadlock
        } }
        $run! { advance {
            an_advance_moves_each_lane_once
            an_older_epoch_moves_nothing
            another_previous_offset_moves_nothing
            one_strange_lane_is_missing_from_the_count
            another_transaction_moves_nothing
            a_handlers_commit_is_seen
            a_handlers_rollback_is_seen
            a_handlers_commit_and_begin_is_seen
            a_swallowed_error_is_seen
            a_nested_transaction_left_open_is_seen
            nothing_is_written_outside_the_runtimes_transaction
        } }
        $run! { versions {
            a_version_is_read_by_the_next_claim
            a_claim_with_versions_is_a_claim
            a_version_that_another_wrote_is_kept
            versions_belong_to_their_consumer
            a_fenced_transaction_writes_no_version
            what_waits_is_woken_by_its_version
            an_event_is_set_aside_and_joins_again
        } }
        $run! { savepoint {
            a_failed_event_leaves_no_trace
            a_handler_that_rolled_back_further_is_seen
            a_deferred_violation_names_its_event
        } }
        $run! { ownership {
            a_take_over_raises_every_epoch
            a_resync_raises_the_epoch_too
            an_epoch_is_never_issued_twice
            the_first_start_follows_the_configuration
            a_partition_added_later_begins_at_its_beginning
            a_start_is_written_before_the_first_delivery
            reading_goes_on_at_the_smaller_offset
            the_last_record_is_kept_beside_the_watermark
            a_log_that_ended_below_the_watermark_is_remembered
            an_own_offset_without_a_row_stands_still
            a_log_that_begins_above_the_watermark_stands_still
            a_log_that_ends_below_the_watermark_stands_still
            a_recreated_topic_stands_still
            a_topic_id_is_adopted_once_known
            another_live_process_with_my_instance_id_stands_still
            a_paused_owner_cannot_commit
            a_take_over_waits_for_no_lock_for_long
            an_owner_lets_go
        } }
        $run! { remap {
            another_lane_count_waits_for_the_watermark
            a_change_of_lanes_may_be_taken_back
            another_lane_rule_is_a_remap
            parked_events_keep_their_place
            an_older_build_waits_for_parked_events
            ids_of_another_scope_stand_still
        } }
        $run! { watermark {
            the_watermark_moves_from_where_it_stood
            a_lane_that_went_back_stops_the_watermark
            an_untouched_lane_does_not_stop_the_watermark
            an_idle_check_notices_another_owner
            several_watermarks_are_written_each_by_its_own_right
        } }
        $run! { parking {
            parked_events_keep_their_order
            a_follower_has_no_due_time
            parking_the_same_delivery_again_changes_nothing
            another_record_at_a_parked_place_is_not_swallowed
            a_parked_place_is_found_again
            a_schedule_counts_by_the_databases_clock
            the_load_is_counted_up_to_its_limit
            transactions_that_park_count_one_after_the_other
        } }
        $run! { release {
            a_queue_is_due_by_its_head
            only_a_head_is_released_but_anything_is_discarded
            a_record_from_before_a_remap_comes_along
            a_queue_is_read_in_its_order
            a_queue_is_in_the_order_of_its_offsets
            a_marked_event_is_not_due
            a_removed_event_counts_as_settled_from_now
            an_id_that_is_parked_twice_stays_marked
            copies_are_found_under_either_hash
            the_next_event_is_promoted
            a_failed_event_gets_a_new_time
            a_release_of_an_older_epoch_is_fenced
            an_act_is_written_down
        } }
        $run! { operators {
            parked_events_are_found
            a_parked_event_is_told_whole
            a_release_is_asked_for_at_the_head
            a_discard_is_asked_for_anywhere
            doubtful_events_need_force
            intents_are_written_in_steps
            an_outcome_tells_what_is_left
            operators_see_their_consumer_only
            an_aggregate_is_forgotten_and_the_audit_ends
        } }
        $run! { corrections {
            a_skip_raises_lanes_and_watermark
            a_correction_fences_the_owner
            a_correction_spares_a_live_owner
            a_skip_goes_forward_only
            a_beginning_is_decided_once
            a_retired_topic_begins_anew
            a_retirement_gives_up_parked_events_aloud
        } }
        $run! { retention {
            old_settled_events_are_pruned
            a_parked_event_is_spared
            an_event_at_the_watermark_is_spared
            a_young_event_is_spared
            another_consumers_events_are_spared
            a_retired_partition_is_freed
            a_step_is_bounded
            one_pruner_at_a_time
        } }
        $run! { lanes {
            crossing_lanes_never_deadlock
        } }
        $run! { intake {
            an_intake_is_found_by_its_name
            an_intake_of_another_scope_is_refused
            an_intake_with_keys_of_another_rule_is_taken_over
            a_locked_lane_is_waited_for
            a_lane_that_an_older_build_has_moved_goes_on
            the_watermark_of_an_intake_follows_its_lanes
            what_a_process_of_an_intake_left_is_known
        } }
    };
}

/// Runs every scenario, one after the other.
///
/// `settings` have to name an empty database or schema of its own: the suite makes and drops the
/// inbox tables there.
///
/// # Panics
///
/// When a promise is broken, or the database has inbox tables already.
pub async fn exercise<DB: Probe>(settings: DB::Settings) {
    let mut conn = DB::open(&settings).await.expect("the database cannot be opened");
    let version = DB::version(&mut conn).await.expect("the version cannot be read");
    assert_eq!(version, None, "the suite drops inbox tables: give it an empty database");
    drop(conn);
    macro_rules! run {
        ($room:ident { $($scenario:ident)* }) => { $($room::$scenario::<DB>(settings.clone()).await;)* };
    }
    conformance_scenarios!(run);
}
