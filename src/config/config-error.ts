/** Exit codes of a program that cannot start (sysexits.h): EX_UNAVAILABLE, EX_IOERR, EX_TEMPFAIL, EX_CONFIG. */
type StartExitCode = 69 | 74 | 75 | 78;

/** The reasons why the program cannot start: all problems at once, each of the form `problem: fix`. */
export class ConfigError extends Error {
	override readonly name = 'ConfigError';
	readonly problems: readonly string[];
	readonly exitCode: StartExitCode;

	constructor(problems: readonly string[], exitCode: StartExitCode = 78) {
		super(problems.join('\n'));
		this.problems = problems;
		this.exitCode = exitCode;
	}
}
