import {execFile} from 'node:child_process';
import {readFileSync, rmSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import {Mailctl, type MailctlError, type Message} from 'mailctl/client';
import {type Program, prepareProgram, welcomeOf} from '../helpers/daemon.ts';
import {notRunHere} from '../helpers/not-run-here.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {waitFor} from '../helpers/wait.ts';

const run = promisify(execFile);
const running = oncePerFile(test, async scope => {
	const program = await prepareProgram(scope, {});
	const daemon = await program.serve();
	return {program, daemon, ...(await welcomeOf(program))};
});

/** The example of docs/guide/client.md that bears this name. */
function exampleOf(name: string): string {
	const page = readFileSync('docs/guide/client.md', 'utf8');
	return new RegExp(`<!-- test: ${name} -->\n\`\`\`\\w+\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] ?? '';
}

/** Runs the Python client with more code appended; null: Python is not installed. */
async function runPython(t: ExecutionContext, {folder}: Program, more: string, ...args: readonly string[]) {
	const file = path.join(folder, 'mailctl.py');
	writeFileSync(file, readFileSync('docs/guide/mailctl.py', 'utf8') + more);
	try {
		return (await run('python3', [file, ...args], {cwd: folder})).stdout;
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
			throw error;
		}
		notRunHere(t, 'there is no python3');
		return null;
	}
}

test.serial('the Python client sends, lists and reports errors', async t => {
	const {program, daemon, key, from, templateId} = running();
	const main = `
import sys
base, key, sender, template = sys.argv[1:]
client = Mailctl(base, key)
ids = [client.send(**{"from": sender}, to="dan@example.org", templateId=template, data={"n": n})["id"] for n in range(3)]
same = {client.send("order-7", **{"from": sender}, to="bob@example.org", templateId=template)["id"] for _ in range(2)}
listed = [one["id"] for one in client.list("/v1/messages", recipient="dan@example.org", limit=2)]
errors = []
for wrong in (lambda: client.send(to="x"), lambda: Mailctl(base, "key_live_no").call("GET", "/v1/usage"), lambda: Mailctl("http://127.0.0.1:1", "k", 0).call("GET", "/")):
    try:
        wrong()
    except MailctlError as error:
        errors.append([error.status, error.code, len(error.violations)])
print(json.dumps([listed == ids[::-1], len(same), errors]))
`;
	const made = await runPython(t, program, main, daemon.url, key, from, templateId);
	if (made === null) {
		return;
	}
	const {violations} = (await new Mailctl({baseUrl: daemon.url, apiKey: key}).messages
		.send({to: 'x'} as never)
		.catch((error: MailctlError) => error as MailctlError & {id: string})) as MailctlError;
	t.deepEqual(JSON.parse(made), [
		true,
		1,
		[
			[422, 'validation_failed', violations.length],
			[401, 'unauthorized', 0],
			[0, 'no_answer', 0],
		],
	]);
});

/** A send with every field set, to a mail server that no test reaches. */
const everything = (from: string, templateId: string, inReplyTo: string) => ({
	from,
	to: 'eve@example.org',
	templateId,
	toName: 'Eve',
	replyTo: 'help@example.org',
	replyToName: 'Help',
	headers: {'X-Entity-Ref-ID': 'order-7'},
	inReplyTo,
	attachments: [{filename: 'a.txt', contentType: 'text/plain', content: 'YQ==', contentId: 'a'}],
	sendAt: '+3h',
	expiresAt: '+5h',
	priority: 'high' as const,
});

test.serial(
	'the clients cover every field of a send and the routes of messages, contacts, templates and layouts',
	async t => {
		const {program, daemon, key, from, templateId} = running();
		const client = new Mailctl({baseUrl: daemon.url, apiKey: key});
		const {id: first} = await client.messages.send({from, to: 'eve@example.org', templateId});
		const send = everything(from, templateId, first);
		const example = exampleOf('more.py')
			.replace('http://127.0.0.1:8125', daemon.url)
			.replace('key_live_…', key)
			.replaceAll('tpl_…', templateId)
			.replace('hello@example.com', from)
			.replaceAll('ada@example.org', 'ann@example.org');
		const made = await runPython(
			t,
			program,
			`${example}
import sys
send, missing = json.loads(sys.argv[1]), []
said = [client.call("GET", f"/v1/messages/{one['id']}") for one in (later, client.send(**send))]
items = [client.batch([{**mail, "to": "eve@example.org", "idempotencyKey": "once"}])[0] for _ in range(2)]
unkeyed = client.batch([{**mail, "to": "x"}, {**mail, "to": "eve@example.org"}])
try:
    client.cancel(said[0]["id"])
except MailctlError as error:
    missing.append(error.code)
files = {"body.html": "<html>{{ content }}</html>"}
saved = client.call("PUT", "/v1/layouts/layout/main", {"files": files})
layouts = [one["name"] for one in client.list("/v1/layouts")]
client.call("DELETE", "/v1/layouts/layout/main")
template = client.call("GET", f"/v1/templates/{mail['templateId']}")
head = client.call("GET", f"/v1/messages/{said[1]['id']}/raw").decode()
print(json.dumps([said, [(one["id"], one["replayed"]) for one in items], [one["status"] for one in unkeyed], missing, saved, layouts, template, head]))
`,
			JSON.stringify(send),
		);
		if (made !== null) {
			const [[later, full], items, unkeyed, codes, saved, layouts, template, head] = JSON.parse(made);
			t.is(later.status, 'errored', 'it was cancelled');
			checkFull(t, full, head);
			t.deepEqual([items[0][1], items[1][1], items[0][0] === items[1][0]], [false, true, true]);
			t.deepEqual(unkeyed, ['error', 'accepted']);
			t.deepEqual(codes, ['not_cancellable']);
			t.deepEqual([saved.templates, layouts], [[], ['main']]);
			t.deepEqual([template.priority, template.sensitive], ['high', ['code']]);
			t.regex(readFileSync(path.join(program.folder, 'bounced.csv'), 'utf8'), /^id,/);
		}

		const {id} = await client.messages.send(send);
		await client.messages.update(id, {sendAt: '+4h'});
		checkFull(t, await client.messages.get(id), new TextDecoder().decode(await client.messages.raw(id)));
		t.is((await client.messages.cancel(id, {})).status, 'errored');
		const twice = {messages: [{from, to: 'eve@example.org', templateId, idempotencyKey: 'twice'}]};
		const results = [(await client.messages.batch(twice)).data[0], (await client.messages.batch(twice)).data[0]];
		t.deepEqual(
			results.map(one => one?.status === 'accepted' && one.replayed),
			[false, true],
		);
		const {data: people} = await client.contacts.list({email: 'eve@example.org'}).page();
		const {url} = await client.contacts.preferencesLink(people[0]?.id ?? '', {});
		t.is((await fetch(new URL(url.slice(url.indexOf('/preferences')), daemon.url))).status, 200);
		t.is((await client.templates.update(templateId, {priority: 'low'})).priority, 'low');
		const files = {'footer.liquid': '<p>{{ workspace.name }}</p>'};
		t.deepEqual(await client.layouts.save('partial', 'footer', {files}, {dry_run: 'true'}), {templates: []});
		t.deepEqual((await client.layouts.list().page()).data, []);
		await client.layouts.save('partial', 'footer', {files});
		t.deepEqual((await client.layouts.get('partial', 'footer')).files, files);
		await client.layouts.delete('partial', 'footer');
	},
);

test.serial('the client and the examples of its docs page send a first message until it is delivered', async t => {
	const {daemon, key, from, templateId} = running();
	const client = new Mailctl({baseUrl: daemon.url, apiKey: key});

	const {id} = await client.messages.send({from, to: 'one@example.org', templateId, data: {name: 'Ada'}});
	await waitFor('the mail to be delivered', async () => (await client.messages.get(id)).status === 'delivered');
	const types: string[] = [];
	for await (const {type} of client.messages.events(id)) {
		types.push(type);
	}
	t.is(types[0], 'accepted');
	t.is(types.at(-1), 'delivered');

	const environment = {...process.env, API_URL: daemon.url, API_KEY: key, TEMPLATE: templateId};
	// Inside of the project: there `mailctl/client` is what the package exports.
	const file = path.join('dist', `client-example-${process.pid}.mjs`);
	t.teardown(() => rmSync(file, {force: true}));
	writeFileSync(file, exampleOf('send.mjs'));
	for (const runs of [1, 2]) {
		const {stdout} = await run(process.execPath, [file], {env: environment});
		const [sent, ...listed] = stdout.trim().split('\n');
		t.is(listed.length, 1, `its key makes one message in ${runs} runs`);
		t.true(listed[0]?.startsWith(`${sent} `));
	}
	await client.suppressions.create({recipient: 'ada@example.org'});
	writeFileSync(file, exampleOf('send.mjs').replace('order-1042', 'order-1043'));
	t.regex((await run(process.execPath, [file], {env: environment})).stdout, /^Ada wants no mail\.\n/);
});

function checkFull(t: ExecutionContext, message: Message, head: string): void {
	t.is(message.status, 'accepted');
	t.is(message.priority, 'high');
	t.is(message.to_name, 'Eve');
	t.is(message.reply_to_name, 'Help');
	t.is(message.headers?.['X-Entity-Ref-ID'], 'order-7');
	t.truthy(message.send_at);
	t.truthy(message.expires_at);
	t.truthy(message.headers?.['In-Reply-To']);
	t.regex(head, /^To: Eve <eve@example\.org>\r$/m);
	t.regex(head, /^Reply-To: Help <help@example\.org>\r$/m);
	t.regex(head, /^In-Reply-To: <.+>\r$/m);
}
