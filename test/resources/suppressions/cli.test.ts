import {execFile} from 'node:child_process';
import {randomBytes} from 'node:crypto';
import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {promisify} from 'node:util';
import test, {type ExecutionContext} from 'ava';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {engines, newLocation} from '../../helpers/databases.ts';
import {waitFor} from '../../helpers/wait.ts';
import {addKey, addWorkspace} from '../../helpers/workspace.ts';

type Entry = {
	readonly id: string;
	readonly recipient: string;
	readonly reason: string;
	readonly source: string;
	readonly created_at: string;
};
type Imported = {
	read: number;
	added: number;
	listed: number;
	bad: number;
	faults: Array<{line: number; fault: string}>;
};

async function withWorkspace(t: ExecutionContext, settings: Record<string, string> = {}): Promise<Cli> {
	const cli = await newCli(t, settings);
	await cli.json('workspace', 'create', '--name', 'acme');
	return cli;
}

function write({folder}: Cli, name: string, text: string | Uint8Array): string {
	writeFileSync(path.join(folder, name), text);
	return name;
}

function read({folder}: Cli, name: string): string {
	return readFileSync(path.join(folder, name), 'utf8');
}

async function list(cli: Cli): Promise<string[]> {
	const rows = await cli.json<Entry[]>('suppression', 'list', '--limit', '1000');
	return rows.map(({recipient, reason, source}) => `${recipient} ${reason} ${source}`);
}

test('suppression: add, check, list, remove', async t => {
	const cli = await withWorkspace(t);
	const added = await cli.json<Entry & {added: boolean}>('suppression', 'add', 'Jörg@Bücher.example');
	t.like(added, {recipient: 'Jörg@Bücher.example', reason: 'manual', source: 'cli', added: true});
	t.deepEqual(await cli.json('suppression', 'add', 'jörg@xn--bcher-kva.example'), {...added, added: false});
	golden(t, 'suppression-add', await cli.text('suppression', 'add', 'user@x.example'));
	write(
		cli,
		'list.csv',
		'email,reason\nlong-name-of-a-person@a-rather-long-name-of-a-host.example,complaint\ngone@x.example,hard_bounce\n',
	);
	await cli.json('suppression', 'import', 'list.csv');
	golden(t, 'suppression-list', await cli.text('suppression', 'list'));
	t.deepEqual(await list(cli), [
		'gone@x.example hard_bounce import',
		'long-name-of-a-person@a-rather-long-name-of-a-host.example complaint import',
		'user@x.example manual cli',
		'Jörg@Bücher.example manual cli',
	]);
	t.is((await cli.json<Entry[]>('suppression', 'list', '--reason', 'complaint')).length, 1);
	t.is((await cli.json<Entry[]>('suppression', 'list', '--limit', '3')).length, 3);

	const {added: _, ...entry} = added;
	t.deepEqual(await cli.json('suppression', 'check', 'JÖRG@bücher.example'), {
		suppressed: true,
		entry,
		opted_out: [],
	});
	t.deepEqual(await cli.json('suppression', 'check', 'nobody@x.example'), {
		suppressed: false,
		entry: null,
		opted_out: [],
	});
	const {database} = await cli.store();
	const [{id: workspace_id}] = await database('workspaces').select('id');
	const optOut = {workspace_id, address: 'u@x.example', address_key: 'user@x.example', source: 'x', created_at: 'x'};
	await database('topic_optouts').insert([
		{...optOut, code: 'news'},
		{...optOut, code: 'events'},
	]);
	golden(t, 'suppression-check', await cli.text('suppression', 'check', 'user@x.example'));

	refused(
		t,
		await cli.run('suppression', 'remove', added.id),
		64,
		/destroys data, and there is no terminal to confirm it, add --yes/,
	);
	t.like(await cli.json('suppression', 'remove', added.id, '--yes'), {id: added.id, removed: true});
	t.is(await cli.text('suppression', 'remove', 'GONE@x.example', '--yes'), 'removed gone@x.example (hard_bounce)\n');
	t.is((await list(cli)).length, 2);
	const removals = await database('audit').where({action: 'suppression.removed', workspace_id}).pluck('recipient');
	t.deepEqual(removals.toSorted(), ['gone@x.example', 'jörg@xn--bcher-kva.example']);

	refused(
		t,
		await cli.run('suppression', 'remove', added.id, '--yes'),
		65,
		/is not on the suppression list, see mailctl/,
	);
	refused(
		t,
		await cli.run('suppression', 'add', 'nobody'),
		65,
		/nobody is not a valid address, it must be a bare address/,
	);
	refused(
		t,
		await cli.run('suppression', 'list', '--reason', 'spam'),
		64,
		/--reason "spam" is not allowed, use hard_bounce/,
	);
});

test('import adds valid lines and reports invalid ones', async t => {
	const cli = await withWorkspace(t);
	await cli.json('suppression', 'add', 'known@x.example');
	const text = [
		'\ufeffName,Email,Reason,Created At',
		'"A, B",a@x.example,hard_bounce,2026-01-02T03:04:05.678Z',
		'C,KNOWN@x.example,complaint,',
		'D,not an address,,',
		'',
		'E,a@x.example,unsubscribe,',
		'F,f@x.example,who knows,',
		'"G,g@x.example,,',
		'=H,h@x.example,,soon',
		'I,i@x.example,,',
	].join('\r\n');
	write(cli, 'list.csv', text);
	const counts = {read: 8, added: 2, listed: 2, bad: 4};

	const dry = await cli.run('suppression', 'import', 'list.csv', '--dry-run', '--json');
	t.is(dry.code, 65);
	// A line that is repeated within the file counts as new each time.
	t.like(JSON.parse(dry.stdout), {...counts, added: 3, listed: 1, dry_run: true});
	t.deepEqual(await list(cli), ['known@x.example manual cli']);

	const {code, stdout, stderr} = await cli.run('suppression', 'import', 'list.csv', '--bad', 'bad.csv', '--json');
	t.is(code, 65);
	t.deepEqual(JSON.parse(stdout), {
		...counts,
		dry_run: false,
		columns: {recipient: 'Email', reason: 'Reason', created_at: 'Created At'},
		faults: [
			{line: 4, fault: 'the address must be a bare address such as name@example.com'},
			{line: 7, fault: 'the reason "who knows" is unknown; give one with --reason'},
			{line: 8, fault: 'its quote is not closed'},
			{line: 9, fault: '"soon" is not a valid time (example: 2026-11-21T10:15:30Z)'},
		],
	});
	t.is(
		stderr,
		[
			'mailctl: list.csv, line 4: the address must be a bare address such as name@example.com',
			'mailctl: list.csv, line 7: the reason "who knows" is unknown; give one with --reason',
			'mailctl: list.csv, line 8: its quote is not closed',
			'mailctl: list.csv, line 9: "soon" is not a valid time (example: 2026-11-21T10:15:30Z)',
			'mailctl: 4 of 8 lines were rejected, fix bad.csv and import it',
			'',
		].join('\n'),
	);
	t.deepEqual(await list(cli), [
		'i@x.example manual import',
		'known@x.example manual cli',
		'a@x.example hard_bounce import',
	]);
	const [, , first] = await cli.json<Entry[]>('suppression', 'list');
	t.is(first?.created_at, '2026-01-02T03:04:05.678Z', 'it sorts by its own time');
	t.deepEqual(read(cli, 'bad.csv').split('\r\n'), [
		'line,fault,Name,Email,Reason,Created At',
		'4,the address must be a bare address such as name@example.com,D,not an address,,',
		'7,"the reason ""who knows"" is unknown; give one with --reason",F,f@x.example,who knows,',
		'8,its quote is not closed,"""G,g@x.example,,"',
		`9,"""soon"" is not a valid time (example: 2026-11-21T10:15:30Z)",'=H,h@x.example,,soon`,
		'',
	]);

	write(
		cli,
		'corrected.csv',
		read(cli, 'bad.csv').replace('not an address', 'd@x.example').replaceAll('who knows', 'spam'),
	);
	const again = await cli.run('suppression', 'import', 'corrected.csv', '--bad', 'rest.csv');
	t.is(again.code, 65);
	golden(t, 'suppression-import', again.stdout);
	t.is((await cli.json<Entry[]>('suppression', 'list', '--reason', 'complaint'))[0]?.recipient, 'f@x.example');
	t.regex(read(cli, 'rest.csv'), /^line,fault,Name,Email,Reason,Created At\r\n4,[^\n]+\n5,[^\n]+\n$/);
});

test('import reads standard input, sets one reason for all lines, and rejects files that are not lists', async t => {
	const cli = await withWorkspace(t);
	const piped = await cli.runWith(
		'a@x.example\nb@x.example,complaint\n',
		...['suppression', 'import', '-', '--json'],
	);
	t.like(JSON.parse(piped.stdout), {read: 2, added: 2, bad: 0});
	t.is(piped.code, 0);
	write(cli, 'list.csv', 'email,reason\nc@x.example,who knows\n');
	t.like(await cli.json('suppression', 'import', 'list.csv', '--reason', 'complaint'), {added: 1, bad: 0});
	t.like(await cli.json('suppression', 'import', 'list.csv', '--reason', 'manual'), {added: 0, listed: 1});
	t.deepEqual((await list(cli)).toSorted(), [
		'a@x.example manual import',
		'b@x.example complaint import',
		'c@x.example complaint import',
	]);
	t.like(await cli.json('suppression', 'import', write(cli, 'empty.csv', '')), {read: 0, added: 0, columns: null});

	write(cli, 'utf16.csv', Buffer.from('email\na@x.example\n', 'utf16le'));
	refused(t, await cli.run('suppression', 'import', 'utf16.csv'), 65, /utf16\.csv is not UTF-8 text, save it as CSV/);
	refused(t, await cli.run('suppression', 'import', 'nix.csv'), 65, /nix\.csv does not exist, name an existing file/);
	refused(t, await cli.run('suppression', 'import', '.'), 65, /\. is a folder, name a regular file/);
	for (const verb of [
		['export', '--out', 'nix/out.csv'],
		['import', 'list.csv', '--bad', 'nix/bad.csv'],
	]) {
		refused(
			t,
			await cli.run('suppression', ...verb),
			74,
			/a file cannot be read or written \(ENOENT.*nix\/\w+\.csv/,
		);
	}
	const own = await cli.run('suppression', 'import', 'list.csv', '--bad', './list.csv');
	refused(t, own, 64, /--bad names the input file, name another file/);
	t.is(read(cli, 'list.csv'), 'email,reason\nc@x.example,who knows\n');

	// Only the first twenty faults are told one by one.
	write(cli, 'list.csv', `email\n${'nobody\n'.repeat(25)}`);
	const faulty = await cli.run('suppression', 'import', 'list.csv', '--bad', 'bad.csv');
	t.is(faulty.code, 65);
	const lines = faulty.stderr.trimEnd().split('\n');
	t.is(lines.length, 22);
	t.is(lines[19], 'mailctl: list.csv, line 21: the address must be a bare address such as name@example.com');
	t.is(lines[20], 'mailctl: and 5 more');
	t.is(read(cli, 'bad.csv').trimEnd().split('\r\n').length, 26);
});

for (const engine of engines) {
	test(`an exported list can be imported into another workspace unchanged (${engine})`, async t => {
		const location = await newLocation(t, engine);
		const settings: Record<string, string> =
			'url' in location
				? {MAILCTL_DATABASE_URL: location.url, MAILCTL_SECRET_KEY: randomBytes(32).toString('base64')}
				: {};
		const cli = await withWorkspace(t, settings);
		await cli.json('workspace', 'create', '--name', 'other');
		const many = Array.from(
			{length: 2500},
			(_, n) =>
				`u${n}@x.example,hard_bounce,2026-01-01T00:00:${String(n % 60).padStart(2, '0')}.${String(n % 1000).padStart(3, '0')}Z`,
		);
		const odd = ['=1+1@x.example', "'=1+1@x.example", "''-a@x.example", '+a@x.example', 'jörg@bücher.example'];
		write(cli, 'list.csv', ['email,reason,created', ...many, ...odd].join('\n'));
		t.like(await cli.json('suppression', 'import', 'list.csv', '--workspace', 'acme'), {added: 2505, bad: 0});

		const out = await cli.text('suppression', 'export', '--workspace', 'acme');
		t.regex(out, /^id,recipient,reason,source,created_at\r\n/);
		t.true(
			out.includes(",'=1+1@x.example,") && out.includes(",''=1+1@x.example,") && out.includes(",'+a@x.example,"),
		);
		t.deepEqual(await cli.json('suppression', 'export', '--out', 'out.csv', '--workspace', 'acme'), {
			file: 'out.csv',
			exported: 2505,
		});
		t.is(read(cli, 'out.csv'), out);
		t.like(await cli.json<Imported>('suppression', 'import', 'out.csv', '--workspace', 'other'), {
			added: 2505,
			bad: 0,
		});

		const entries = async (workspace: string) => {
			const rows = await cli.json<Entry[]>('suppression', 'export', '--workspace', workspace);
			// The file has whole seconds, as the API's times.
			return rows
				.map(({id, created_at, ...rest}) => `${created_at.slice(0, 19)} ${JSON.stringify(rest)}`)
				.toSorted();
		};
		const theirs = await entries('other');
		t.is(theirs.length, 2505);
		const ours = await entries('acme');
		t.deepEqual(
			theirs.filter((each, index) => each !== ours[index]),
			[],
		);
		const bounces = await cli.json<Entry[]>(
			'suppression',
			'export',
			'--reason',
			'hard_bounce',
			'--workspace',
			'other',
		);
		t.is(bounces.length, 2500);
		const times = bounces.map(({created_at}) => created_at);
		t.deepEqual(times, times.toSorted().toReversed(), 'newest first');

		// A reader that goes away early ends an export, which is no error.
		const words = `"${process.execPath}" "${path.resolve('bin/mailctl.js')}" suppression export --workspace other`;
		const options = {cwd: cli.folder, env: {...process.env, ...settings}};
		const command = `${words} | head -1; echo "\${PIPESTATUS[0]}"`;
		const {stdout, stderr} = await promisify(execFile)('bash', ['-c', command], options);
		t.is(stdout, 'id,recipient,reason,source,created_at\r\n0\n');
		t.is(stderr, '');
	});
}

test('a daemon keeps accepting messages during an import, and enforces the imported suppressions', async t => {
	const cli = await withWorkspace(t, {MAILCTL_ROLES: 'api'});
	const store = await cli.store();
	const workspace = await addWorkspace(store, 'shop');
	const key = await addKey(store, workspace.id);
	const {url} = await cli.serve();
	write(cli, 'list.csv', Array.from({length: 5000}, (_, n) => `u${n}@x.example`).join('\n'));
	const send = async (to: string) => {
		const response = await fetch(`${url}/v1/messages`, {
			method: 'POST',
			headers: {authorization: `Bearer ${key}`, 'content-type': 'application/json'},
			body: JSON.stringify({from: workspace.sender, to, templateId: workspace.templateId}),
		});
		return {status: response.status, body: await response.text()};
	};
	let importing = true;
	const imported = cli.json<Imported>('suppression', 'import', 'list.csv', '--workspace', 'shop').finally(() => {
		importing = false;
	});
	const statuses: number[] = [];
	for (let n = 0; importing; n++) {
		statuses.push((await send(`other${n}@x.example`)).status);
	}
	t.like(await imported, {added: 5000, bad: 0});
	t.true(statuses.length > 10, String(statuses.length));
	t.deepEqual([...new Set(statuses)], [202]);
	const refusal = await waitFor('the refusal', async () => {
		const answer = await send('U4999@x.example');
		return answer.status === 422 ? answer.body : null;
	});
	t.regex(refusal, /recipient_suppressed/);
});
