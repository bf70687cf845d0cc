"""The tests that may notice a mutant, and calling one of them outside of pytest."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

import _pytest.outcomes

from tests.mutation.place import Place

TEST_SECONDS = 90.0

# The tests that may notice, by group of mutants; the likeliest first.
TESTS: dict[str, list[str]] = {
    "user": ["integration/test_lockdown.py::test_the_program_is_a_user_of_its_own_without_other_groups"],
    "leash": ["escape/test_pool.py::test_a_sandbox_ends_by_itself_when_its_leash_is_cut"],
    "files": ["integration/test_lockdown.py::test_the_root_is_read_only_and_the_tmpfs_are_writable"],
    "privileges": [
        "integration/test_lockdown.py::test_the_program_has_no_capability",
        "integration/test_lockdown.py::test_no_new_privileges_and_the_seccomp_filter_are_on",
    ],
    "filter": [
        "escape/test_filter.py::test_every_system_call_that_the_profile_does_not_name_is_refused",
        "escape/test_filter.py::test_calls_younger_than_the_profile_are_refused_or_unknown",
    ],
    "arguments": [
        "escape/test_kernel.py::test_no_namespace_can_be_made_or_entered",
        "escape/test_kernel.py::test_clone3_is_unknown_so_that_libraries_fall_back",
        "escape/test_filter.py::test_only_streams_within_the_sandbox_are_let_through",
        "escape/test_quotas.py::test_no_socket_of_any_network_protocol_can_be_made",
        "escape/test_quotas.py::test_no_filter_can_be_attached_to_a_socket_or_a_process",
        "escape/test_filter.py::test_the_supervisor_cannot_be_rescheduled_or_limited",
        "escape/test_filter.py::test_socket_pairs_of_other_families_are_refused",
        "escape/test_filter.py::test_not_even_the_harmless_device_node_of_an_overlay_can_be_made",
        "escape/test_filter.py::test_the_way_addresses_are_chosen_cannot_be_changed",
    ],
    "architecture": [
        "escape/test_kernel.py::test_the_foreign_32_bit_abi_cannot_be_used",
        "escape/test_kernel.py::test_x32_system_calls_are_refused",
    ],
    "ipc": ["integration/test_lockdown.py::test_shared_memory_and_message_queues_are_out_of_reach"],
    "namespaces": [
        "escape/test_filesystem.py::test_the_place_of_the_sandbox_on_the_host_is_not_told",
        "integration/test_lockdown.py::test_only_the_sandboxs_own_processes_are_there",
    ],
    "inspected": [
        "integration/test_lockdown.py::test_the_engine_made_the_sandbox_as_it_was_asked",
        "integration/test_lockdown.py::test_the_code_is_in_no_argument_variable_or_log_of_the_container",
    ],
    "resources": [
        "integration/test_lockdown.py::test_memory_is_limited_to_one_gigabyte_without_swap",
        "integration/test_lockdown.py::test_the_processor_is_limited_to_one",
        "integration/test_lockdown.py::test_processes_are_limited",
        "escape/test_hoarding.py::test_the_program_is_given_up_before_the_hosts_own_services",
        "integration/test_lockdown.py::test_the_engine_made_the_sandbox_as_it_was_asked",
    ],
    "paths": [
        "escape/test_filesystem.py::test_every_path_that_tells_of_the_host_is_masked",
        "escape/test_filesystem.py::test_the_kernels_own_settings_are_mounted_read_only",
    ],
    "tmpfs": [
        "integration/test_lockdown.py::test_the_mounts_are_tmpfs_with_nosuid_nodev_and_noexec",
        "integration/test_lockdown.py::test_the_tmpfs_have_their_sizes",
        "escape/test_filesystem.py::test_the_tmpfs_hold_a_bounded_number_of_files",
    ],
    "ulimits": [
        "integration/test_lockdown.py::test_resource_limits_cannot_be_raised",
        "escape/test_hoarding.py::test_descriptors_run_out_at_their_limit",
    ],
    "network": [
        "integration/test_lockdown.py::test_the_only_interface_is_loopback",
        "escape/test_network.py::test_the_namespace_of_a_sandbox_leads_nowhere_even_for_root",
    ],
}


async def failure_of(test: str, where: Place) -> BaseException | None:
    """Return what the test fails with; one that is skipped notices nothing."""
    function = _function(test)
    with tempfile.TemporaryDirectory(prefix="mutation-") as directory:
        fixtures = {name: where.fixture(name, Path(directory)) for name in inspect.signature(function).parameters}
        try:
            async with asyncio.timeout(TEST_SECONDS):
                await function(**fixtures)
        except _pytest.outcomes.Skipped:
            return None
        except Exception as error:
            return error
    return None


def _function(test: str) -> Callable[..., Awaitable[None]]:
    path, _, name = test.partition(".py::")
    function: Callable[..., Awaitable[None]] = getattr(import_module(f"tests.{path.replace('/', '.')}"), name)
    return function
