import test from 'ava';
import type {Session} from '../../../src/cli/session.ts';
import {loadSettings} from '../../../src/config/settings.ts';
import {foundMail} from '../../../src/inbound/mail-files.ts';
import {systemClock} from '../../../src/kit/clock.ts';
import {createIdSource} from '../../../src/mail/ids.ts';
import {startIntake} from '../../../src/resources/received/bounce-intake-cli.ts';
import {writeDaemonFile} from '../../../src/store/data-folder/daemon-file.ts';
import {newStore, temporaryFolder} from '../../helpers/databases.ts';
import {insertWorkspace} from '../../helpers/messages.ts';

const hour = 3_600_000;

test('finishes without yielding to a daemon beside it', async t => {
	const dataDir = await temporaryFolder(t);
	const store = await newStore(t, 'sqlite');
	await insertWorkspace(store, 'sent');
	const loaded = loadSettings({
		env: {MAILCTL_DATA_DIR: dataDir},
		cwd: dataDir,
		hostname: 'mail.shop.example',
		cpus: 1,
	});
	t.true(loaded.ok);
	writeDaemonFile(dataDir, {
		pid: process.pid,
		http: null,
		https: null,
		redirect: null,
		admin: null,
		inbound: null,
		submission: null,
		version: '1',
		roles: [],
	});
	let elapsed = 0;
	// Whatever is done takes an hour, and so would the daemon's turn.
	const clock = {
		now: systemClock.now,
		monotonic() {
			elapsed += hour;
			return elapsed;
		},
	};
	const session = {
		settings: () => (loaded.ok ? loaded.settings : undefined),
		store: async () => store,
		secrets: async () => ({current: 1, keys: {1: new Uint8Array(32)}}),
		write: store.writer.transaction,
		tools: {clock, newId: createIdSource(systemClock)},
	} as unknown as Session;
	const intake = await startIntake(session, []);
	await intake.acceptMessage(foundMail('file', Buffer.from('Subject: hello\r\n\r\nhello\r\n'), 26));
	t.is(await intake.end(), undefined);
	t.like(intake.counts, {taken: 1, other: 1, unmatched: 1, waiting: 0});
});
