#!/usr/bin/env node
// Starts the program of the package for this platform, with the arguments and the environment of this process.
//
// The packages are this one's optional dependencies, named by platform; npm installs the one that fits and leaves out the
// others. Nothing was downloaded or run at installation, and nothing is now.
"use strict";

const { spawn } = require("node:child_process");

const { name, optionalDependencies } = require("../package.json");
const packages = Object.keys(optionalDependencies);
const platform = `${process.platform}-${process.arch}`;

function fail(...lines) {
    console.error([`${name}: ${lines[0]}`, ...lines.slice(1)].join("\n"));
    process.exit(1);
}

function program() {
    const wanted = packages.find((candidate) => candidate.endsWith(`/${platform}`));
    if (!wanted) {
        const platforms = packages.map((candidate) => candidate.split("/")[1]).join(", ");
        fail(`there is no program for ${platform}; there is one for ${platforms}`);
    }
    // Only glibc names its version here.
    if (process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime) {
        fail("this system has another C library than glibc, which the program needs");
    }
    try {
        return require.resolve(`${wanted}/bin/sarsen`);
    } catch {
        return fail(
            `the package ${wanted} is not installed. It is an optional dependency with the program for ${platform}:`,
            "install again without --omit=optional and --no-optional, on the machine where it is used.",
        );
    }
}

function run(file, words) {
    // The program in place of this process: signals and the exit code are its own. Not in every version of Node.js.
    if (process.execve) {
        try {
            process.execve(file, [file, ...words], process.env);
        } catch {
            // As in a version that lacks it.
        }
    }
    const child = spawn(file, words, { stdio: "inherit" });
    // Ctrl-C in a terminal reaches the program twice, by the terminal and from here. It takes that as once.
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
        process.on(signal, () => child.kill(signal));
    }
    child.on("error", (error) => fail(`${file} cannot be started: ${error.message}`));
    child.on("exit", (code, signal) => {
        if (signal) {
            // Ends as the program did.
            process.removeAllListeners(signal);
            process.kill(process.pid, signal);
        } else {
            process.exit(code);
        }
    });
}

run(program(), process.argv.slice(2));
