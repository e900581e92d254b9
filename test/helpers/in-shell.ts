import {startCliShell} from './cli-shell.ts';
import type {Program, Scope} from './daemon.ts';

/** The same program with its commands in one process, one after the other; only `run` starts a process for each. */
export function inShell(scope: Scope, program: Program): Program {
	const shell = startCliShell(scope, program.environment);
	return {...program, cli: shell.json, cliBytes: shell.bytes};
}
