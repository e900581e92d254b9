/** Exit codes of sysexits.h that scripts rely on. */
export const exitCodes = {
	other: 1,
	usage: 64,
	data: 65,
	unavailable: 69,
	io: 74,
	temporary: 75,
	config: 78,
} as const;
export type ExitKind = keyof typeof exitCodes;

/** Why a command ends without its result: what is wrong, and how to mend it, both clauses for people. */
export class CliError extends Error {
	override readonly name = 'CliError';
	readonly exitCode: number;
	/** Lines to be printed before it: each thing that is wrong with the data. */
	readonly details: readonly string[];

	constructor(kind: ExitKind, wrong: string, mend: string, details: readonly string[] = []) {
		super(`${wrong}, ${mend}`);
		this.exitCode = exitCodes[kind];
		this.details = details;
	}
}
