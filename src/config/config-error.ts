/** Exit codes of a program that cannot start (sysexits.h): EX_UNAVAILABLE, EX_IOERR, EX_TEMPFAIL, EX_CONFIG. */
type StartExitCode = 69 | 74 | 75 | 78;

/** What keeps the program from starting: every problem at once, each with its fix. */
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
