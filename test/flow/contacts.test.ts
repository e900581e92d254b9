import {mkdir, readdir, readFile, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {capturedName} from '../../src/deliver/local-delivery.ts';
import {idFloor} from '../../src/mail/ids.ts';
import {openStore} from '../../src/store/store.ts';
import {type Daemon, type Program, prepareProgram} from '../helpers/daemon.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {call} from '../helpers/shop.ts';
import {waitFor} from '../helpers/wait.ts';
import {newId} from '../helpers/workspace.ts';

type Shop = {
	readonly program: Program;
	readonly daemon: Daemon;
	readonly key: string;
	/** Sends with these fields; the id. */
	readonly send: (fields?: object, key?: string) => Promise<string>;
	/** The subject of a message, once it is rendered. */
	readonly subjectOf: (id: string) => Promise<string>;
};

/** The program in capture mode, with a template that prints the date in the recipient's locale and time zone. */
const open = oncePerFile(test, async (scope): Promise<Shop> => {
	const program = await prepareProgram(scope, {
		MAILCTL_SWEEP_INTERVAL: '100ms',
		MAILCTL_RETENTION_DAYS: '2',
		MAILCTL_IDEMPOTENCY_RETENTION: '1h',
	});
	await program.cliBytes('init');
	const folder = join(program.folder, 'templates/day');
	await mkdir(folder, {recursive: true});
	const day = "{{ at | format_date: 'short' }}";
	const subjects = {en: `On ${day}`, de: `Am ${day}`};
	await writeFile(join(folder, 'template.json'), JSON.stringify({subject: day, subjects}));
	for (const name of ['body.html', 'body.en.html', 'body.de.html']) {
		await writeFile(join(folder, name), '<p>{{ recipient.email }}</p>');
	}
	const [template] = await program.cli<Array<{id: string}>>('template', 'push', join(program.folder, 'templates'));
	const {key} = await program.cli<{key: string}>('key', 'create', '--name', 'flow');
	const daemon = await program.serve();
	const messages = `${daemon.url}/v1/messages`;
	return {
		program,
		daemon,
		key,
		async send(fields = {}, bearer = key) {
			const {status, body} = await call(messages, bearer, {
				...{from: 'hello@example.com', to: 'jane@home.example', templateId: template?.id},
				...{data: {at: '2026-06-09T10:30:00Z'}},
				...fields,
			});
			if (status !== 202) {
				throw new Error(JSON.stringify(body));
			}
			return (body as {id: string}).id;
		},
		subjectOf: async id =>
			await waitFor('the subject', async () => {
				const {body} = await call(`${messages}/${id}`, key);
				return (body as {subject: string | null}).subject;
			}),
	};
});

test.serial('erasing a contact removes them from captured messages and leaves those of others', async t => {
	const {program, daemon, key, send, subjectOf} = open();
	const ids = [
		await send({cc: ['boss@work.example']}),
		await send({to: 'zoe@work.example', cc: ['jane@home.example']}),
		await send({to: 'boss@work.example'}),
	];
	const folder = join(program.folder, 'data/captured');
	for (const id of ids) {
		await subjectOf(id);
	}
	await waitFor('five mails', async () => (await readdir(folder)).filter(name => name.endsWith('.eml')).length === 5);
	const {body} = await call(`${daemon.url}/v1/contacts?email=jane@home.example`, key);
	const [{id}] = (body as {data: [{id: string}]}).data;
	const erased = await fetch(`${daemon.url}/v1/contacts/${id}`, {
		method: 'DELETE',
		headers: {authorization: `Bearer ${key}`},
	});
	t.is(erased.status, 204);
	const left = await readdir(folder);
	t.is(left.length, 1);
	t.regex(await readFile(join(folder, left[0] as string), 'utf8'), /^To: .*boss@work\.example/m);
	const shown = await program.run('message', 'show', ids[0] as string);
	t.is(shown.code, 0);
	t.notRegex(shown.stdout, /jane@|home\.example/i);
	t.regex(shown.stdout, /erased@erased\.invalid/);
});

test.serial('the daemon deletes an old message with its captured file and its idempotency key', async t => {
	const {program, daemon, key, send, subjectOf} = open();
	const young = await send();
	await subjectOf(young);
	await waitFor('its end', async () => {
		const {body} = await call(`${daemon.url}/v1/messages/${young}`, key);
		return (body as {status: string}).status === 'delivered';
	});
	const store = await openStore({file: join(program.folder, 'data/mailctl.db')});
	t.teardown(() => store.close());
	const day = 86_400_000;
	const old = idFloor('msg', Date.now() - 3 * day);
	const recipientId = newId('rcp');
	const file = join(program.folder, 'data/captured', capturedName(recipientId));
	await writeFile(file, 'old');
	await store.writer.transaction(async trx => {
		const message = await trx('messages').where({id: young}).first();
		const recipient = await trx('recipients').where({message_id: young}).first();
		await trx('messages').insert({...message, id: old});
		await trx('recipients').insert({...recipient, id: recipientId, message_id: old});
		await trx('idempotency_keys').insert({
			...{workspace_id: message.workspace_id, mode: 'live', key: 'k', fingerprint: 'f', response: '{}'},
			...{message_id: old, created_at: new Date(Date.now() - day).toISOString()},
		});
	});
	await waitFor('the sweep', async () => (await call(`${daemon.url}/v1/messages/${old}`, key)).status === 404);
	await waitFor('the sweep of keys', async () => (await store.reader('idempotency_keys')).length === 0);
	// Files are removed after the commit.
	await waitFor('the removal of the file', async () => {
		const files = await readdir(join(program.folder, 'data/captured'));
		return !files.includes(capturedName(recipientId));
	});
	t.is((await call(`${daemon.url}/v1/messages/${young}`, key)).status, 200);
});
