import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {cp, mkdir, writeFile} from 'node:fs/promises';
import path from 'node:path';
import process from 'node:process';
import {text} from 'node:stream/consumers';
import test, {type ExecutionContext} from 'ava';
import nodemailer from 'nodemailer';
import {openStore, type Store} from '../../src/store/store.ts';
import {eventsOf, type Program, prepareProgram, type Settings} from '../helpers/daemon.ts';
import {startImapServer} from '../helpers/peers/dovecot-imap.ts';
import {insertReturned, type ReturnedMail} from '../helpers/returned-mails.ts';
import {inboundPort} from '../helpers/sent-recipients.ts';
import {eachOf} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';

const count = 50;
const settings: Settings = {MAILCTL_RETURN_PATH_DOMAIN: 'bounces.shop.example', MAILCTL_INBOUND_LISTEN: '127.0.0.1:0'};
const patience = 120_000;

/** Delivers the messages and resolves when they are processed; called twice. Null: not possible here. */
type Bring = (() => Promise<void>) | null;
type Way = (t: ExecutionContext, program: Program, mails: readonly ReturnedMail[]) => Promise<Bring>;

async function withStore<Result>(program: Program, work: (store: Store) => Promise<Result>): Promise<Result> {
	const store = await openStore({file: path.join(program.folder, 'data/mailctl.db')});
	return await work(store).finally(store.close);
}

async function untilRead(program: Program): Promise<void> {
	await withStore(program, ({reader}) =>
		waitFor(
			'all mails are read',
			async () => {
				const rows: Array<{read_at: string | null}> = await reader('inbound').select('read_at');
				return rows.length >= count && rows.every(({read_at}) => read_at !== null);
			},
			patience,
		),
	);
}

/** The message as a delivery agent writes it to a mailbox. */
const stored = ({from, to, bytes}: ReturnedMail) =>
	`Return-Path: <${from}>\nDelivered-To: ${to}\n${bytes.replaceAll('\r\n', '\n')}`;

const bySmtp: Way = async (_, program, mails) => async () => {
	const daemon = await program.serve();
	const port = inboundPort(path.join(program.folder, 'data'));
	const transport = nodemailer.createTransport({host: '127.0.0.1', port, ignoreTLS: true, pool: true});
	for (const {from, to, bytes} of mails) {
		await transport.sendMail({envelope: {from, to}, raw: bytes});
	}
	transport.close();
	await untilRead(program);
	await daemon.stop();
};

const byImap: Way = async (t, program, mails) => {
	const server = await startImapServer(t);
	if (!server) {
		return null;
	}
	for (const mail of mails) {
		await server.deliver(stored(mail));
	}
	const login = `${encodeURIComponent(server.user)}:${encodeURIComponent(server.password)}`;
	let rounds = 0;
	return async () => {
		if (rounds > 0) {
			// A mailbox that is numbered anew is read anew.
			await server.stop();
			await server.renumber();
			await server.start();
		}
		rounds++;
		const daemon = await program.serve({
			MAILCTL_BOUNCE_MAILBOX: `imaps://${login}@127.0.0.1:${server.securePort}/INBOX`,
			MAILCTL_CA_FILE: server.caFile,
			MAILCTL_LOG_LEVEL: 'debug',
		});
		await waitFor('it is read', async () => (await eventsOf(program, 'mailbox_read')).length === rounds, patience);
		await untilRead(program);
		await daemon.stop();
		t.deepEqual(
			(await server.files()).filter(name => name.split(':2,')[1]),
			[],
			'no mail is marked',
		);
		t.is((await server.files()).length, count, 'none is deleted');
	};
};

const ofMaildir: Way = async (_, program, mails) => {
	const folder = path.join(program.folder, 'maildir');
	for (const part of ['new', 'cur', 'tmp']) {
		await mkdir(path.join(folder, part), {recursive: true});
	}
	for (const [n, mail] of mails.entries()) {
		await writeFile(path.join(folder, n % 2 ? 'new' : 'cur', `1700000000.M${n}P1.host`), stored(mail));
	}
	return async () => void (await program.cli('bounce', 'ingest', folder));
};

const ofMbox: Way = async (_, program, mails) => {
	const file = path.join(program.folder, 'mbox');
	const quoted = (mail: ReturnedMail) => stored(mail).replace(/^(>*From )/gm, '>$1');
	const entry = (mail: ReturnedMail) =>
		`From ${mail.from || 'MAILER-DAEMON'} Fri Nov 20 10:00:00 2026\n${quoted(mail)}\n`;
	await writeFile(file, mails.map(entry).join(''));
	return async () => void (await program.cli('bounce', 'ingest', '--again', file));
};

const byStandardInput: Way = async (t, program, all) => {
	let mails = all;
	return async () => {
		await eachOf(mails, 4, pipe);
		// A process for each takes its time: one mail of each kind shows that it comes to nothing again.
		mails = all.slice(0, 10);
	};

	async function pipe({from, to, bytes}: ReturnedMail): Promise<void> {
		// As Exim and Postfix pipe it in.
		const mail = `From ${from || 'MAILER-DAEMON'} Fri Nov 20 10:00:00 2026\nReturn-Path: <${from}>\n${bytes}`;
		const child = spawn(process.execPath, [path.resolve('bin/mailctl.js'), 'bounce', 'ingest', '--rcpt', to], {
			...program.environment,
			stdio: ['pipe', 'ignore', 'pipe'],
		});
		child.stdin.end(mail);
		const [said] = await Promise.all([text(child.stderr), once(child, 'close')]);
		t.is(child.exitCode, 0, said);
	}
};

/** The outcome of the messages, whichever route they took. */
async function outcomeOf(program: Program): Promise<Record<string, unknown[]>> {
	return await withStore(program, async ({reader}) => ({
		recipients: await reader('recipients').orderBy('id').select('id', 'state'),
		events: await reader('events').orderBy(['recipient_id', 'type']).select('message_id', 'recipient_id', 'type'),
		reports: await reader('reports').orderBy('recipient_id').select('recipient_id', 'kind', 'category', 'rule'),
		suppressions: await reader('suppressions').orderBy('address').select('address', 'reason', 'source'),
		kept: await reader('inbound')
			.whereNotNull('kept')
			.orderBy(['kept', 'mail_from'])
			.select('kept', 'mail_from', 'fault'),
	}));
}

test('acceptance 18: 50 returned messages have the same outcome by every path, and no effect twice', async t => {
	t.timeout(600_000);
	const base = await prepareProgram(t, settings);
	await base.cliBytes('init');
	const data = path.join(base.folder, 'data');
	const mails = await insertReturned(data, count, 'bounces.shop.example');

	const outcomes = new Map<string, Awaited<ReturnType<typeof outcomeOf>>>();
	for (const [name, way] of Object.entries({bySmtp, byImap, ofMaildir, ofMbox, byStandardInput})) {
		const program = await prepareProgram(t, settings);
		await cp(data, path.join(program.folder, 'data'), {recursive: true});
		const bring = await way(t, program, mails);
		if (bring === null) {
			continue;
		}
		await bring();
		const first = await outcomeOf(program);
		outcomes.set(name, first);
		await bring();
		t.deepEqual(await outcomeOf(program), first, `${name}, again`);
	}

	const expected = outcomes.get('bySmtp');
	for (const [name, outcome] of outcomes) {
		t.deepEqual(outcome, expected, name);
	}
	const counted = (kind: string) => expected?.[kind]?.length;
	t.true((counted('suppressions') ?? 0) >= 20);
	t.true((counted('reports') ?? 0) >= 40);
});
