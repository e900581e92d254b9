import {spawn, spawnSync} from 'node:child_process';
import {text} from 'node:stream/consumers';
import type {ExecutionContext} from 'ava';
import {notRunHere} from './not-run-here.ts';

/** What dkimpy says about one DKIM-Signature header. */
export type VerifiedSignature = {
	readonly domain: string;
	readonly selector: string;
	readonly algorithm: string;
	/** The names in `h=`, lower case. */
	readonly headers: readonly string[];
	readonly valid: boolean;
	readonly error: string | null;
};

// Debian's own interpreter: another one that comes first in PATH does not see Debian's modules.
const env = {PATH: '/usr/bin:/bin'};

/**
 * Verifies all messages in one process of dkimpy, a DKIM implementation that shares nothing with ours. `dns` holds the
 * TXT records by name. Null where dkimpy is missing (`notRunHere`); `scripts/debian-peers.sh` installs it.
 */
export async function verifyWithDkimpy(
	t: ExecutionContext,
	messages: readonly Buffer[],
	dns: Readonly<Record<string, string>>,
): Promise<VerifiedSignature[][] | null> {
	if (spawnSync('python3', ['-c', 'import dkim, nacl'], {env}).status !== 0) {
		return notRunHere(t, 'dkimpy is missing, scripts/debian-peers.sh installs it');
	}

	const python = spawn('python3', ['test/helpers/dkimpy.py'], {env, timeout: 180_000});
	python.stdin.on('error', () => python.kill());
	python.stdin.end(JSON.stringify({dns, messages: messages.map(message => message.toString('base64'))}));
	const [output, errors] = await Promise.all([text(python.stdout), text(python.stderr)]);
	if (errors) {
		throw new Error(`dkimpy: ${errors}`);
	}

	return JSON.parse(output) as VerifiedSignature[][];
}
