import {randomBytes} from 'node:crypto';
import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {openStore, type Store} from '../../src/store/store.ts';
import {type Daemon, type Program, prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {type Engine, engines, newLocation} from '../helpers/databases.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {hostileMails} from '../helpers/hostile-mails.ts';
import {inboundPort} from '../helpers/sent-recipients.ts';
import {eachOf} from '../helpers/shop.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

const mails = 1000;
const kills = 5;
const address = 'support@in.example.com';

type Lab = {readonly program: Program; readonly store: () => Promise<Store>};

async function prepare(t: ExecutionContext, engine: Engine): Promise<Lab> {
	const location = await newLocation(t, engine);
	const dns = await startFakeDns(t, {});
	const program = await prepareProgram(t, {
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_RETURN_PATH_DOMAIN: 'bounces.shop.example',
		MAILCTL_INBOUND_ALLOWANCE: '1000000/100GiB',
		MAILCTL_DNS_SERVERS: dns.server,
		...('url' in location && {
			MAILCTL_DATABASE_URL: location.url,
			MAILCTL_SECRET_KEY: randomBytes(32).toString('base64'),
		}),
	});
	const store = async () => {
		const opened = await openStore(
			'url' in location ? location : {file: path.join(program.folder, 'data/mailctl.db')},
		);
		t.teardown(() => opened.close());
		return opened;
	};
	return {program, store};
}

/** Submits a message until it is accepted with 250; the daemon may die meanwhile. */
async function bring(t: ExecutionContext, {program}: Lab, mail: string | Buffer): Promise<void> {
	const once = async () => {
		const talk = await talkTo(t, inboundPort(path.join(program.folder, 'data')));
		try {
			await talk.reply();
			await talk.say('EHLO mx.example.net');
			await talk.say('MAIL FROM:<ada@example.net>');
			const answer = await talk.say(`RCPT TO:<${address}>`);
			return answer.startsWith('250') ? await talk.data(mail) : answer;
		} finally {
			talk.end();
		}
	};
	await waitFor('250', async () => (await once().catch(() => 'closed')).startsWith('250'), 300_000);
}

for (const engine of engines) {
	test.serial(`receives a thousand messages while the daemon is killed, each exactly once (${engine})`, async t => {
		t.timeout(900_000);
		const lab = await prepare(t, engine);
		let daemon: Daemon = await lab.program.serve();
		await welcomeOf(lab.program);
		await lab.program.cli('inbound', 'add', address);
		let done = 0;
		const killing = (async () => {
			for (let kill = 1; kill <= kills; kill++) {
				await waitFor('some are in', () => done >= (kill * mails) / (kills + 1), 600_000);
				await daemon.kill();
				daemon = await lab.program.serve();
			}
		})();
		await eachOf(
			Array.from({length: mails}, (_, n) => n),
			5,
			async n => {
				await bring(t, lab, `From: ada@example.net\r\nSubject: mail ${n}\r\n\r\nHello ${n}.\r\n`);
				done++;
			},
		);
		await killing;
		const store = await lab.store();
		const subjects = await waitFor(
			'all are read',
			async () => {
				const rows: Array<{summary: string}> = await store.reader('received').select('summary');
				return (
					rows.length >= mails && rows.map(({summary}) => (JSON.parse(summary) as {subject: string}).subject)
				);
			},
			300_000,
		);
		t.is(subjects.length, mails);
		t.is(new Set(subjects).size, mails);
		t.is((await store.reader('inbound').whereNull('read_at')).length, 0);
	});
}

test.serial('stores every hostile 10 MB message, and reads the messages after them', async t => {
	t.timeout(1_800_000);
	const lab = await prepare(t, 'sqlite');
	await lab.program.serve();
	await welcomeOf(lab.program);
	await lab.program.cli('inbound', 'add', address);
	for (const {build} of hostileMails) {
		// The listener takes a little less.
		await bring(t, lab, build().subarray(0, 10_000_000));
	}
	await bring(t, lab, 'From: ada@example.net\r\nSubject: the last\r\n\r\nHello.\r\n');
	const store = await lab.store();
	const rows = await waitFor(
		'all are read',
		async () => {
			const all: Array<{fault: string | null; size: number}> = await store
				.reader('received')
				.select('fault', 'size');
			return all.length > hostileMails.length && all;
		},
		1_200_000,
	);
	t.is(rows.length, hostileMails.length + 1);
	t.log(`${rows.filter(({fault}) => fault !== null).length} of ${rows.length} could not be read`);
	t.is(rows.at(-1)?.fault, null);
});
