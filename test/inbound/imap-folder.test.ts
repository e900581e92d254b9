import {createHash} from 'node:crypto';
import test, {type ExecutionContext} from 'ava';
import type {ImapFlow} from 'imapflow';
import {FolderReader, type Round, type Skipped} from '../../src/inbound/imap-folder.ts';
import type {FoundMail} from '../../src/inbound/mail-files.ts';
import {imapProblem, openFolder} from '../../src/inbound/mailboxes.ts';
import {type Letter, startSilentImap} from '../helpers/silent-imap.ts';

test('does not skip messages that were not fetched before the connection was lost', async t => {
	const saved: string[] = [];
	const source = Buffer.from('Subject: x\r\n\r\ntext\r\n');
	// As imapflow: without a connection there is no folder, and a fetch ends without an error.
	const client = {
		mailbox: {uidValidity: 7n} as {uidValidity: bigint} | false,
		search: async () => Array.from({length: 250}, (_, n) => n + 1),
		async *fetch(uids: string) {
			if (client.mailbox !== false) {
				yield* uids.split(',').map(uid => ({uid: Number(uid), source, size: source.length}));
			}
		},
	};
	const checkpoint = {
		load: async () => null,
		async save(position: string) {
			saved.push(position);
			client.mailbox = false;
		},
	};
	const acceptMessage = async () => ({id: 'x', isNew: true});
	const options = {checkpoint, acceptMessage, signal: new AbortController().signal};
	const read = () => new FolderReader().takeNew(client as unknown as ImapFlow, options);
	await t.throwsAsync(read(), {message: 'the connection was lost'});
	t.deepEqual(saved, ['7:100']);
	await t.throwsAsync(read(), {message: 'the connection was lost'});
});

/** A mailbox that is read over as many connections as needed. */
async function startFolder(t: ExecutionContext) {
	const server = await startSilentImap(t, null);
	const reader = new FolderReader();
	const seen = {subjects: [] as string[], position: null as string | null, skipped: [] as Skipped[]};
	const options = {
		async acceptMessage({raw}: FoundMail) {
			const id = createHash('sha256').update(raw).digest('hex');
			const subject = /^Subject: (.*)\r$/m.exec(raw.toString())?.[1] ?? '';
			const isNew = !seen.subjects.includes(subject);
			if (isNew) {
				seen.subjects.push(subject);
			}
			return {id, isNew};
		},
		checkpoint: {
			load: async () => seen.position,
			async save(position: string, skipped: readonly Skipped[]) {
				seen.position = position;
				seen.skipped.push(...skipped);
			},
		},
		signal: new AbortController().signal,
	};

	/** Returns what was read, or why the mailbox cannot be read. */
	async function readOnce(): Promise<Round | string> {
		const client = await openFolder(server.mailbox, null);
		try {
			return await reader.takeNew(client, options);
		} catch (error) {
			return imapProblem(reader.explain(error), server.mailbox).reason.replace(/^\S+ /, '');
		} finally {
			client.close();
		}
	}

	return {
		server,
		seen,
		readOnce,
		put(...letters: Letter[]) {
			for (const letter of letters) {
				server.letters.set(server.letters.size + 1, letter);
			}
		},
		reasons: () => seen.skipped.map(({error}) => imapProblem(error, server.mailbox).reason.replace(/^\S+ /, '')),
	};
}

const letter = (subject: string): Letter => ({text: `Subject: ${subject}\r\n\r\ntext\r\n`});

for (const [fault, words] of [
	['NO', 'message 3 is corrupt'],
	['BAD', 'message 3 is corrupt'],
	['nil', 'the server returned NIL as its content'],
	['omit', 'the server returned nothing'],
] as const) {
	test(`skips a message that the server does not return, on the same connection: ${fault}`, async t => {
		const {put, readOnce, reasons, seen} = await startFolder(t);
		put(letter('1'), letter('2'), fault, letter('4'), letter('5'));
		t.deepEqual(await readOnce(), {taken: 4, known: 0, cut: 0, skipped: 1});
		t.deepEqual(seen.subjects.toSorted(), ['1', '2', '4', '5']);
		t.deepEqual(reasons(), [`does not return message UID 3 of INBOX: ${words}`]);
		t.is(seen.position, '7:5');

		// Later messages are fetched together again.
		put(letter('6'));
		t.deepEqual(await readOnce(), {taken: 1, known: 0, cut: 0, skipped: 0});
	});
}

test('skips a message at which the server closes the connection, once later messages could be read', async t => {
	const {put, readOnce, reasons, seen} = await startFolder(t);
	put(letter('1'), letter('2'), 'close', letter('4'), letter('5'));
	const rounds: Array<Round | string> = [];
	while (seen.position !== '7:5' && rounds.length < 9) {
		rounds.push(await readOnce());
	}
	t.regex(String(rounds[0]), /^closed the connection while returning messages UID 1 to 5 of INBOX: /);
	t.regex(String(rounds[1]), /^closed the connection while returning message UID 3 of INBOX: /);
	t.regex(String(rounds[2]), /^closed the connection while returning message UID 3 of INBOX: /);
	t.like(rounds[3], {taken: 0, skipped: 1});
	t.deepEqual(seen.subjects.toSorted(), ['1', '2', '4', '5']);
	t.regex(reasons()[0] ?? '', /^closed the connection while returning message UID 3 of INBOX: /);
	t.is(seen.skipped.length, 1);
});

test('does not skip a message because a single connection was lost', async t => {
	const {put, readOnce, server, seen} = await startFolder(t);
	put(letter('1'), 'close', letter('3'));
	await readOnce();
	await readOnce();
	server.letters.set(2, letter('2'));
	t.like(await readOnce(), {skipped: 0});
	t.deepEqual(seen.subjects.toSorted(), ['1', '2', '3']);
	t.is(seen.position, '7:3');
});

test('skips nothing if the server returns no message at all', async t => {
	const {put, readOnce, server, seen} = await startFolder(t);
	put('NO', 'NO');
	t.is(await readOnce(), 'does not return message UID 1 of INBOX: message 1 is corrupt');
	t.is(seen.position, null);
	server.letters.set(1, letter('1'));
	server.letters.set(2, letter('2'));
	t.deepEqual(await readOnce(), {taken: 2, known: 0, cut: 0, skipped: 0});
});

test('skips an unreadable last message of a folder only after another one arrives', async t => {
	const {put, readOnce, reasons, seen} = await startFolder(t);
	put('close');
	for (let n = 0; n < 3; n++) {
		t.regex(String(await readOnce()), /^closed the connection while returning message UID 1 of INBOX: /);
	}
	put(letter('2'));
	t.deepEqual(await readOnce(), {taken: 1, known: 0, cut: 0, skipped: 1});
	t.is(reasons().length, 1);
	t.is(seen.position, '7:2');
});
