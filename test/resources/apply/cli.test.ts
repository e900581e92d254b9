import {writeFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import {type Cli, type CliResult, golden, newCli, refused} from '../../helpers/cli.ts';
import {waitFor} from '../../helpers/wait.ts';

type Applied = {
	readonly dry_run: boolean;
	readonly changes: ReadonlyArray<{
		readonly action: string;
		readonly kind: string;
		readonly name: string;
		readonly fields: object;
		readonly done: boolean;
		readonly key?: string;
		readonly signing_secret?: string;
	}>;
};

const file = `version: 1
workspaces:
  - name: acme
    settings: {locale: de, route: 'smtp://u:geheim@smtp.example.net'}
    senders:
      - {address: no-reply@shop.example, name: The Shop, verified: true}
    topics:
      - {code: news, name: Monthly news}
      - {code: offers, name: Offers}
    webhooks:
      - {url: https://shop.example/hooks, events: [delivered, bounced]}
    keys:
      - {name: app, scopes: [messages:send]}
`;

async function apply(cli: Cli, text: string, ...options: readonly string[]): Promise<CliResult> {
	writeFileSync(path.join(cli.folder, 'mailctl.yaml'), text);
	return await cli.run('apply', '-f', 'mailctl.yaml', ...options);
}

test('apply creates what a file declares; applying the exported file again changes nothing', async t => {
	const cli = await newCli(t);
	const name = (text: string) => {
		writeFileSync(path.join(cli.folder, 'mailctl.yaml'), text);
		return ['apply', '-f', 'mailctl.yaml'];
	};
	t.is(await cli.text('export'), 'version: 1\nworkspaces: []\n');
	const dry = await cli.json<Applied>(...name(file), '--dry-run');
	t.deepEqual([dry.dry_run, dry.changes.length, dry.changes.some(({done}) => done)], [true, 6, false]);
	t.is(await cli.text('export'), 'version: 1\nworkspaces: []\n');

	golden(t, 'apply', await cli.text(...name(file)));
	const exported = await cli.text('export');
	golden(t, 'export', exported);
	t.notRegex(exported, /geheim|whsec_|key_|PRIVATE/);
	t.is(await cli.text(...name(exported)), 'Nothing to change.\n');
	t.is(await cli.text(...name(file)), 'Nothing to change.\n', 'the password in it is the one that is stored');
	t.deepEqual(await cli.json(...name(JSON.stringify(await cli.json('export')))), {dry_run: false, changes: []});
	t.is(await cli.text('export'), exported, 'it is the same each time');

	const again = await cli.json<Applied>(...name(file.replace('geheim', 'neu')));
	t.like(again.changes, [{action: 'change', kind: 'workspace', name: 'acme', done: true}]);
	t.notRegex(JSON.stringify(again), /geheim|neu@/);

	await cli.json('workspace', 'create', '--name', 'other');
	t.notRegex(await cli.text('export', '--workspace', 'acme'), /other/);
	const both = `${file}  - {name: other, topics: [{code: x, name: X}]}\n`.replace('geheim', 'neu');
	t.is(await cli.text(...name(both), '--workspace', 'acme'), 'Nothing to change.\n');
	t.like(await cli.json(...name(both)), {changes: [{name: 'x', done: true}]});
});

test('apply prints keys and secrets once and removes objects only with --yes', async t => {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	const made = JSON.parse((await cli.runWith(file, 'apply', '-f', '-', '--json')).stdout) as Applied;
	t.regex(made.changes.find(({kind}) => kind === 'webhook')?.signing_secret as string, /^whsec_[\w-]{43}$/);
	const key = made.changes.find(({kind}) => kind === 'key')?.key as string;
	t.regex(key, /^key_live_\w{38}$/);

	const less = 'version: 1\nworkspaces: [{name: acme, topics: [{code: added, name: A}], keys: []}]\n';
	const unsure = await apply(cli, less);
	t.is(unsure.code, 64);
	t.regex(
		unsure.stdout,
		/^\+ topic added in acme\n {4}name: A\n- key app in acme\n- topic offers in acme\n- topic news/,
	);
	t.regex(unsure.stderr, /^mailctl: this destroys data, .* add --yes to confirm\n$/);
	const unsureJson = await apply(cli, less, '--json');
	t.is(unsureJson.code, 64);
	t.deepEqual(
		(JSON.parse(unsureJson.stdout) as Applied).changes.map(({done}) => done),
		[false, false, false, false],
	);
	t.is((await cli.json<unknown[]>('topic', 'list')).length, 2, 'nothing is done');
	const sure = await apply(cli, less, '--yes');
	t.regex(sure.stdout, /\nMade 4 changes\.\n$/);
	t.like(await cli.json('topic', 'list'), [{code: 'added'}]);
	t.like(await cli.json('key', 'list'), [{name: 'app', active: false}]);
});

test('apply rejects an invalid file and reports every problem with its line', async t => {
	const cli = await newCli(t, {MAILCTL_RETENTION_DAYS: '30'});
	await cli.json('workspace', 'create', '--name', 'acme');
	const bad = `version: 1
workspaces:
  - name: acme
    topics:
      - {code: good, name: Good}
      - {code: a b}
    webhooks:
      - {url: ftp://x.example/, events: [nix]}
`;
	refused(t, await apply(cli, bad, '--yes'), 65, /line 6: .*topics\[1\]\.code must(.|\n)*line 8: /);
	refused(
		t,
		await cli.runWith(bad.replace('[nix]', '[bounced]').replace('a b', 'b, name: B'), 'apply', '-f', '-'),
		65,
		/line 8: workspaces\[0\]\.webhooks\[0\]\.url must be an https URL[^\n]*\nmailctl: standard input cannot be applied/,
	);
	refused(
		t,
		await apply(cli, 'version: 1\nworkspaces: [{name: acme, settings: {source_pool: bulk}}]'),
		65,
		/pool bulk not found in MAILCTL_SOURCE_POOLS/,
	);
	refused(
		t,
		await apply(cli, 'version: 1\nworkspaces: [{name: acme, settings: {retention_days: 31}}]'),
		65,
		/exceeds MAILCTL_RETENTION_DAYS \(30\)/,
	);
	refused(t, await cli.run('apply', '-f', 'missing.yaml'), 65, /missing\.yaml does not exist/);
	refused(t, await cli.run('apply'), 64, /-f, --file/);
	t.deepEqual(await cli.json('topic', 'list'), []);
});

test('a failed change keeps the earlier ones and is reported; applying again completes the rest', async t => {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme');
	const {database} = await cli.store();
	await database.raw(
		"create trigger refuse before insert on topics when new.code = 'offers' begin select raise(abort, 'refused'); end",
	);
	const keysFirst = 'version: 1\nworkspaces:\n  - {name: acme, keys: [{name: app}]}\n  - name: other\n';
	const failed = await apply(cli, keysFirst + file.slice(file.indexOf('    topics')));
	t.is(failed.code, 1);
	t.regex(failed.stdout, /key app in acme\n {2}key_live_\w{38}\n$/, 'a key that was made is shown all the same');
	t.regex(
		failed.stderr,
		/^mailctl: 3 changes were made and 3 were not, apply the file again for the rest\nmailctl: .*refused/,
	);
	await database.raw('drop trigger refuse');
	const rest = await apply(cli, keysFirst + file.slice(file.indexOf('    topics')));
	t.is(rest.code, 0, rest.stderr);
	t.regex(rest.stdout, /^\+ topic offers in other\n(.|\n)*Made 3 changes\.\n$/);
});

test('a running daemon enforces the new scopes of a key within a second', async t => {
	const cli = await newCli(t, {MAILCTL_ROLES: 'api'});
	const allow = async (scope: string) => {
		const text = `{"version": 1, "workspaces": [{"name": "acme", "keys": [{"name": "app", "scopes": ["${scope}"]}]}]}`;
		return JSON.parse((await apply(cli, text, '--json')).stdout) as Applied;
	};
	const key = (await allow('usage:read')).changes.at(-1)?.key;
	const {url} = await cli.serve();
	const status = async () => (await fetch(`${url}/v1/usage`, {headers: {authorization: `Bearer ${key}`}})).status;
	t.is(await status(), 200);
	t.is((await allow('messages:read')).changes[0]?.action, 'change');
	await waitFor('its end', async () => (await status()) === 403);
	await allow('usage:read');
	await waitFor('its return', async () => (await status()) === 200);
});
