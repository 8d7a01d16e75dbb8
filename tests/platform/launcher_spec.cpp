// SPDX-FileCopyrightText: 2026 The Ferry Authors
// SPDX-License-Identifier: Apache-2.0

#include <ferry/platform/launcher.hpp>

#include "support/catch.hpp"

#include <map>
#include <string>

namespace ferry {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using variables = std::map<std::string, std::string>;

environment from(const variables& set) {
  return [&set](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
}

variables of_torchrun() {
  return {{"RANK", "2"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "0"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
          {"TORCHELASTIC_RUN_ID", "none"},
          {"TORCHELASTIC_RESTART_COUNT", "3"}};
}

TEST_CASE("the variables of torchrun are read", "[launcher]") {
  const auto set = of_torchrun();

  const auto read = read_launcher(from(set));

  CHECK(read.value() == launched_rank{.rank = 2,
                                      .size = 4,
                                      .local_rank = 0,
                                      .address = "127.0.0.1",
                                      .port = 29500,
                                      .agent_hosts = true,
                                      .restart = 3,
                                      .job = "none"});
}

TEST_CASE("a launcher may leave out what only torchrun sets", "[launcher]") {
  auto set = of_torchrun();
  set.erase("LOCAL_RANK");
  set.erase("TORCHELASTIC_USE_AGENT_STORE");
  set.erase("TORCHELASTIC_RESTART_COUNT");
  set.erase("TORCHELASTIC_RUN_ID");

  const auto read = read_launcher(from(set));

  CHECK(read.value()->local_rank == 2);
  CHECK_FALSE(read.value()->agent_hosts);
  CHECK(read.value()->restart == 0);
  CHECK(read.value()->job.empty());
}

TEST_CASE("a process that nobody launched as a rank has no rank", "[launcher]") {
  const auto set = variables{{"MASTER_ADDR", "127.0.0.1"}};

  CHECK(read_launcher(from(set)).value() == std::nullopt);
}

struct wrong_value {
  std::string name;
  std::string value;
  std::string words;
};

TEST_CASE("a variable that is wrong is refused by name and value", "[launcher]") {
  const auto wrong = GENERATE(
      wrong_value{"RANK", "x", "RANK is 'x'; expected an integer from 0 to 65535"},
      wrong_value{"RANK", "65536", "RANK is '65536'; expected an integer from 0 to 65535"},
      wrong_value{"RANK", "-1", "RANK is '-1'"}, wrong_value{"RANK", "1 ", "RANK is '1 '"},
      wrong_value{"WORLD_SIZE", "0", "WORLD_SIZE is '0'; expected an integer from 1"},
      wrong_value{"LOCAL_RANK", "one", "LOCAL_RANK is 'one'; expected an integer from 0 to 65535"},
      wrong_value{"MASTER_PORT", "65536",
                  "MASTER_PORT is '65536'; expected an integer from 1 to "
                  "65535"},
      wrong_value{"MASTER_ADDR", "", "MASTER_ADDR is empty"},
      wrong_value{"TORCHELASTIC_RESTART_COUNT", "many", "TORCHELASTIC_RESTART_COUNT is 'many'"});
  auto set = of_torchrun();
  set[wrong.name] = wrong.value;

  const auto read = read_launcher(from(set));

  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::invalid_config);
  CHECK_THAT(read.error().detail, Contains(wrong.words));
}

TEST_CASE("a variable that is missing beside others is refused by name, with those", "[launcher]") {
  const auto [name, others] = GENERATE(table<std::string, std::string>({
      {"RANK", "WORLD_SIZE is"},
      {"WORLD_SIZE", "RANK is"},
      {"MASTER_ADDR", "RANK and WORLD_SIZE are"},
      {"MASTER_PORT", "RANK and WORLD_SIZE are"},
  }));
  auto set = of_torchrun();
  set.erase(name);

  const auto read = read_launcher(from(set));

  REQUIRE_FALSE(read);
  CHECK_THAT(read.error().detail, StartsWith(name + " is not set, but " + others + "; set RANK"));
}

/// What each other launcher tells rank 1 of two on one machine.
variables of_srun() {
  return {{"SLURM_JOB_ID", "4711"},     {"SLURM_NTASKS", "2"},  {"SLURM_PROCID", "1"},
          {"SLURM_LOCALID", "1"},       {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_STEP_NUM_NODES", "1"}};
}

variables of_open_mpi() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_NAMESPACE", "prterun-a-7350@1"}};
}

variables of_mpich() {
  return {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
}

TEST_CASE("srun and mpirun say which rank of one machine a process is, and need no address",
          "[launcher]") {
  const auto set = GENERATE(of_srun(), of_open_mpi(), of_mpich());

  const auto read = read_launcher(from(set));

  REQUIRE(read.value());
  const auto port = read.value()->port;
  CHECK(port >= 20000);
  CHECK(port <= 29500);
  CHECK(*read.value() == launched_rank{.rank = 1,
                                       .size = 2,
                                       .local_rank = 1,
                                       .address = "127.0.0.1",
                                       .port = port,
                                       .job = read.value()->job});
}

TEST_CASE("ranks of one job have one port, and those of another have another", "[launcher]") {
  const auto [of_job, job] = GENERATE(table<variables, std::string>({
      {of_srun(), "SLURM_JOB_ID"},
      {of_srun(), "SLURM_STEP_ID"},
      {of_open_mpi(), "PMIX_NAMESPACE"},
  }));
  auto other = of_job;
  other[job] = "3";
  auto sibling = of_job;
  for (const auto* rank : {"SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK"})
    if (sibling.contains(rank))
      sibling[rank] = "0";

  const auto own = read_launcher(from(of_job)).value();

  CHECK_FALSE(own->job.empty());
  CHECK(read_launcher(from(sibling)).value()->port == own->port);
  CHECK(read_launcher(from(sibling)).value()->job == own->job);
  CHECK(read_launcher(from(other)).value()->port != own->port);
  CHECK(read_launcher(from(other)).value()->job != own->job);
}

TEST_CASE("ranks of several machines are told to set the address of rank 0's", "[launcher]") {
  const auto [of_one, machines, several] = GENERATE(table<variables, std::string, std::string>({
      {of_srun(), "SLURM_STEP_NUM_NODES", "2"},
      {of_open_mpi(), "OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
      {of_mpich(), "MPI_LOCALNRANKS", "1"},
  }));
  auto set = of_one;
  set[machines] = several;

  const auto refused = read_launcher(from(set));
  set["MASTER_ADDR"] = "node1";
  const auto read = read_launcher(from(set));

  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == errc::invalid_config);
  CHECK_THAT(refused.error().detail,
             StartsWith("MASTER_ADDR is not set, ") &&
                 Contains("is 1 of 2, and nothing says that all are on this machine; set"));
  CHECK(read.value()->address == "node1");
  CHECK(read.value()->port == read_launcher(from(of_one)).value()->port);
}

TEST_CASE("what torchrun sets counts before what is around it", "[launcher]") {
  auto set = of_torchrun();
  set.merge(of_srun());

  const auto read = read_launcher(from(set));

  CHECK(read.value() == read_launcher(from(of_torchrun())).value());
}

TEST_CASE("an address, a port and a local rank that are set count under every launcher",
          "[launcher]") {
  auto set = GENERATE(of_srun(), of_open_mpi(), of_mpich());
  set.merge(variables{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1234"}, {"LOCAL_RANK", "0"}});

  const auto read = read_launcher(from(set));

  CHECK(read.value() == launched_rank{.rank = 1,
                                      .size = 2,
                                      .local_rank = 0,
                                      .address = "node1",
                                      .port = 1234,
                                      .job = read.value()->job});
}

TEST_CASE("a process that a batch system runs by itself has no rank", "[launcher]") {
  auto set = variables{{"SLURM_JOB_ID", "4711"},
                       {"SLURM_NTASKS", "4"},
                       {"SLURM_PROCID", "0"},
                       {"SLURM_LOCALID", "0"}};
  SECTION("in its batch script") {}
  SECTION("where a step has one task") {
    set.merge(variables{{"SLURM_STEP_ID", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  }
  SECTION("where a number of tasks is left of a step that is not its own") {
    set["SLURM_STEP_NUM_TASKS"] = "4";
  }

  CHECK(read_launcher(from(set)).value() == std::nullopt);
}

TEST_CASE("a launcher within a step of one task counts, and so do two that agree", "[launcher]") {
  auto set = of_open_mpi();
  SECTION("within a step of one task") {
    set.merge(
        variables{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  }
  SECTION("beside one that agrees") {
    set.merge(of_mpich());
  }
  SECTION("within a step of the helpers that started its ranks") {
    set.merge(of_srun());
    set["SLURM_PROCID"] = "0";
    set["SLURM_STEP_NUM_TASKS"] = "3";
  }
  SECTION("beside a number of ranks that agrees") {
    set["WORLD_SIZE"] = "2";
  }

  CHECK(read_launcher(from(set)).value() == read_launcher(from(of_open_mpi())).value());
}

TEST_CASE("launchers that contradict each other are refused with what each says", "[launcher]") {
  auto set = of_open_mpi();
  std::string expected;
  SECTION("another rank") {
    set.merge(of_mpich());
    set["PMI_RANK"] = "0";
    expected = "OMPI_COMM_WORLD_RANK of OMPI_COMM_WORLD_SIZE is 1 of 2 and PMI_RANK of PMI_SIZE is "
               "0 of 2; set RANK, WORLD_SIZE, MASTER_ADDR";
  }
  SECTION("another number of ranks") {
    set.merge(of_mpich());
    set["PMI_SIZE"] = "3";
    expected = "OMPI_COMM_WORLD_SIZE is 1 of 2 and PMI_RANK of PMI_SIZE is 1 of 3; set RANK";
  }
  SECTION("but one variable of torchrun") {
    set["WORLD_SIZE"] = "4";
    expected = "WORLD_SIZE is 4 and OMPI_COMM_WORLD_RANK of OMPI_COMM_WORLD_SIZE is 1 of 2; set";
  }

  const auto read = read_launcher(from(set));

  REQUIRE_FALSE(read);
  CHECK(read.error().code == errc::invalid_config);
  CHECK_THAT(read.error().detail, Contains(expected));
}

TEST_CASE("a rank beyond its world is told what was expected", "[launcher]") {
  const auto refused = beyond_world({.rank = 4, .size = 4});

  REQUIRE(refused);
  CHECK(refused->detail == "RANK is 4; expected 0 to 3, because WORLD_SIZE is 4");
  CHECK(refused->rank == 4);
  CHECK_FALSE(beyond_world({.rank = 3, .size = 4}));
}

TEST_CASE("a rank has the GPU of its local rank, or the only one that its process is shown",
          "[launcher]") {
  const launched_rank third{.rank = 6, .size = 8, .local_rank = 2};

  CHECK(gpu_of(third, 4) == 2);
  CHECK(gpu_of(third, 1) == 0);
  CHECK(gpu_of(third, 2) == 2); // Which is then refused by its number.
}

} // namespace
} // namespace ferry
