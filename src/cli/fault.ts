import {userInfo} from 'node:os';
import process from 'node:process';
import {ConfigError} from '../config/config-error.ts';
import {systemCode} from '../kit/system-error.ts';
import {Refused} from '../resources/operation.ts';
import {printable} from './terminal-text.ts';

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

/** An error that stops a command: the problem and how to fix it, both as clauses for people. */
export class CliError extends Error {
	override readonly name = 'CliError';
	readonly exitCode: number;
	/** Lines that are printed before the message, one for each problem with the data. */
	readonly details: readonly string[];

	constructor(kind: ExitKind, problem: string, fix: string, details: readonly string[] = []) {
		super(`${problem}, ${fix}`);
		this.exitCode = exitCodes[kind];
		this.details = details;
	}
}

/** Returns the name of the user who runs this command. */
export function userName(): string {
	try {
		return userInfo().username;
	} catch {
		return `uid ${process.getuid?.()}`; // In a container, the user may have no entry in /etc/passwd.
	}
}

export type Report = {readonly lines: readonly string[]; readonly exitCode: number};

/** Formats every error as `mailctl: <what is wrong>, <how to fix it>`, and chooses the exit code. */
export function report(error: unknown): Report {
	if (error instanceof CliError) {
		return {lines: [...error.details, error.message].map(line), exitCode: error.exitCode};
	}
	if (error instanceof Refused) {
		const exitCode = error.code === 'rate_limited' ? exitCodes.temporary : exitCodes.data;
		return {lines: [line(`${error.wrong}, ${error.next}`)], exitCode};
	}
	if (error instanceof ConfigError) {
		return {lines: error.problems.map(line), exitCode: error.exitCode};
	}
	const code = systemCode(error);
	const message = error instanceof Error ? error.message : String(error);
	const known = knownProblems.find(({codes}) => codes.test(code));
	if (known) {
		return {lines: [line(`${known.problem} (${message}), ${known.fix}`)], exitCode: known.exitCode};
	}
	const stack = error instanceof Error ? (error.stack ?? '').split('\n').slice(1) : [];
	return {
		lines: [line(`unexpected error: ${message}, please report it with these lines`), ...stack],
		exitCode: exitCodes.other,
	};
}

const knownProblems: ReadonlyArray<{codes: RegExp; problem: string; fix: string; exitCode: number}> = [
	{
		codes: /^FILE_REFUSED$/,
		problem: 'a file or folder was refused',
		fix: 'replace it with a regular file or folder',
		exitCode: exitCodes.data,
	},
	{
		codes: /^SQLITE_DRIVER$/,
		problem: 'the sqlite3 driver is not built',
		fix: 'install python3, make and g++ and run npm rebuild sqlite3',
		exitCode: exitCodes.unavailable,
	},
	{
		codes: /^SEALED_SECRET$/,
		problem: 'a secret in the store cannot be decrypted',
		fix: 'replace it: rotate the webhook or the keys of the domain, or set the route of the workspace again',
		exitCode: exitCodes.io,
	},
	{
		codes: /^SQLITE_(BUSY|LOCKED)$/,
		problem: 'the store is busy',
		fix: 'try again',
		exitCode: exitCodes.temporary,
	},
	{
		codes: /^SQLITE_(CORRUPT|NOTADB)$/,
		problem: 'the store is damaged',
		fix: 'restore the last backup',
		exitCode: exitCodes.io,
	},
	{
		codes: /^(EACCES|EPERM)$/,
		// The command of the package switches to the service's user, even for root.
		problem: `the user ${userName()} may not access a file or folder`,
		fix: 'choose another one, or give this user access',
		exitCode: exitCodes.io,
	},
	{
		codes: /^(SQLITE_(CANTOPEN|READONLY|FULL|IOERR|PERM)|EROFS|ENOSPC|EDQUOT|EIO|ENOENT|ENOTDIR|EISDIR|ENAMETOOLONG|EAGAIN|EFBIG|ELOOP|EMFILE|ENFILE)$/,
		problem: 'a file cannot be read or written',
		fix: 'check the path, its owner and the space on the disk',
		exitCode: exitCodes.io,
	},
	{
		codes: /^TRANSACTION_POOLING$/,
		problem: 'MAILCTL_DATABASE_URL points to a connection pooler in transaction mode',
		fix: 'set its pool mode to session (PgBouncer: pool_mode=session), or connect to PostgreSQL directly',
		exitCode: exitCodes.config,
	},
	{
		codes: /^25006$/,
		problem: 'the database is read-only',
		fix: 'make it writable, or change the URL if it points to a replica',
		exitCode: exitCodes.temporary,
	},
	// PostgreSQL: class 28 means a refused user or password, 3D000 a database that does not exist.
	{
		codes: /^(28\w{3}|3D000|ENOTFOUND)$/,
		problem: 'the database of MAILCTL_DATABASE_URL cannot be used',
		fix: 'fix the URL',
		exitCode: exitCodes.config,
	},
	{
		codes: /^(08|53|57)\w{3}$|^(ECONN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EAI_AGAIN)/,
		problem: 'the database cannot be reached',
		fix: 'start it or try again',
		exitCode: exitCodes.temporary,
	},
];

function line(text: string): string {
	return `mailctl: ${printable(text.replace(/\s*\n\s*/g, ' '))}`;
}
