// The command line's entry point.

process.stderr.write("berth: no commands yet.\n");
process.exitCode = 125;
