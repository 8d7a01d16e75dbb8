// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <ferry/messages/block_prefetcher.hpp>
#include <ferry/messages/cache_retention.hpp>
#include <ferry/messages/comm_stream.hpp>
#include <ferry/messages/component_stager.hpp>
#include <ferry/messages/copy_stream.hpp>
#include <ferry/messages/host_memory.hpp>
#include <ferry/messages/offloader.hpp>
#include <ferry/messages/rank_gate.hpp>
#include <ferry/messages/supervisor.hpp>
#include <ferry/messages/values.hpp>

CAF_BEGIN_TYPE_ID_BLOCK(ferry_messages, caf::first_custom_type_id)

  CAF_ADD_TYPE_ID(ferry_messages, (ferry::answered))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::begin_request))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::end_request))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::announce_blocks))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::start_child))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::drain_child))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::release_child))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::start_children))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::stop_children))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::stopped))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::child_failed))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::query_children))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::children_state))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::open_copies))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::reload_residents))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::fetch_block))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::discard_slot))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::drain_copies))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::piece_sent))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::open_gathers))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::gather_piece))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::drain_gathers))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::close_gathers))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::vote_to_start))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::join_wave))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::leave_ranks))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::close_copies))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::group_staged))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::group_left))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::groups_closed))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::release_cache))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::query_cache))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::cache_state))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::use_cache_retention))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::open_groups))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::drain_groups))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::close_groups))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::demand_group))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::stage_group_in))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::stage_group_out))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::open_ring))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::close_ring))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::empty_ring))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::refill_ring))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::demand_block))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::block_released))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::query_ring))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::ring_counts))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::enable_pipeline))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::enable_weights))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::enabled))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::stage_component))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::queue_request))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::expire_requests))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::cancel_request))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::update_weights))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::weights_updated))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::read_component))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::component_read))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::disable_backend))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::query_offload))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::offload_state))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::lease_host_memory))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::pin_lease))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::settle_lease))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::give_back_leases))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::query_host_memory))
  CAF_ADD_TYPE_ID(ferry_messages, (ferry::host_memory_state))

CAF_END_TYPE_ID_BLOCK(ferry_messages)
