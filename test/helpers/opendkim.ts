import {spawnSync} from 'node:child_process';
import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import type {ExecutionContext} from 'ava';
import {notRunHere} from './not-run-here.ts';

const env = {PATH: '/usr/sbin:/usr/bin:/bin'};

/**
 * What OpenDKIM says of each message: `mc1: pass`, a text for each signature. `dns` holds the TXT records by name. Null
 * where it is missing (`notRunHere`); `scripts/debian-peers.sh` installs it.
 */
export function verifyWithOpendkim(
	t: ExecutionContext,
	messages: readonly Buffer[],
	dns: Readonly<Record<string, string>>,
): string[][] | null {
	if (spawnSync('opendkim', ['-V'], {env}).status !== 0) {
		return notRunHere(t, 'opendkim is missing, scripts/debian-peers.sh installs it');
	}
	const folder = mkdtempSync(join(tmpdir(), 'mailctl-opendkim-'));
	t.teardown(() => rmSync(folder, {recursive: true}));
	const records = Object.entries(dns).map(([name, value]) => `${name} ${value}\n`);
	writeFileSync(join(folder, 'dns'), records.join(''));
	writeFileSync(join(folder, 'conf'), `Mode v\nTestDNSData file:${join(folder, 'dns')}\n`);
	return messages.map(message => {
		const file = join(folder, 'mail.eml');
		writeFileSync(file, message);
		const run = spawnSync('opendkim', ['-x', join(folder, 'conf'), '-vv', '-t', file], {env, encoding: 'utf8'});
		const signatures = [...run.stdout.matchAll(/dkim=(\w+)(?:[^;]|\n)*?header\.s=(\w+)/g)];
		return signatures.map(([, result, selector]) => `${selector}: ${result}`);
	});
}
