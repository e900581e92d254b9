import test from 'ava';
import {defaultLimits} from '../../../src/mail/workspace-limits.ts';
import {type Cli, golden, newCli, refused} from '../../helpers/cli.ts';
import {startFakeDns} from '../../helpers/fake-dns.ts';

type Named = {readonly id: string; readonly name: string};

async function withWorkspace(cli: Cli, name = 'acme'): Promise<Named> {
	return await cli.json<Named>('workspace', 'create', '--name', name);
}

const noMail = {attempted: 0, hard: 0, bounce_rate: null, delivered: 0, complained: 0, complaint_rate: null};

test('workspace: create, show, update, pause, resume, list', async t => {
	const cli = await newCli(t);
	const made = await cli.json<Named>(
		...['workspace', 'create', '--name', 'acme', '--locale', 'de-at', '--monthly-quota', '100', '--track-opens'],
	);
	const {id, ...rest} = made as Named & {created_at: string};
	t.regex(id, /^ws_[0-9a-z]{26}$/);
	t.deepEqual(rest, {
		name: 'acme',
		locale: 'de-AT',
		timezone: null,
		monthly_quota: 100,
		queue_lifetime: null,
		track_opens: true,
		track_clicks: false,
		source_pool: null,
		route: null,
		default_topic: null,
		retention_days: null,
		content_days: null,
		max_attachments: null,
		max_attachment_bytes: null,
		limits: defaultLimits,
		paused: false,
		paused_at: null,
		pause_reason: null,
		reputation: {
			state: 'fine',
			since: null,
			warned_at: null,
			windows: {day: noMail, week: noMail},
			limits: {
				warn: {bounces: 0.05, complaints: 0.001},
				pause: {bounces: 0.1, complaints: 0.005},
				least: {attempted: 200, delivered: 1000, complained: 3},
			},
		},
		branding: {name: null, logo_url: null, accent: null, support_email: null},
		created_at: rest.created_at,
	});
	t.like(await cli.json('workspace', 'update', 'acme', '--monthly-quota', 'none', '--queue-lifetime', '2d'), {
		id,
		monthly_quota: null,
		queue_lifetime: 172_800,
		locale: 'de-AT',
	});
	t.like(await cli.json('workspace', 'pause', '--reason', 'under review'), {
		paused: true,
		pause_reason: 'under review',
	});
	golden(t, 'workspace-show', await cli.text('workspace', 'show', id));
	t.like(await cli.json('workspace', 'resume', 'acme'), {paused: false, paused_at: null, pause_reason: null});
	const again = await cli.run('workspace', 'resume', 'acme');
	t.is(again.code, 0);
	t.is(again.stderr, 'mailctl: acme is neither paused nor warned, nothing was changed\n');
	t.deepEqual(
		(await cli.json<Named[]>('workspace', 'list')).map(each => each.id),
		[id],
	);
	golden(t, 'workspace-list', await cli.text('workspace', 'list'));

	refused(t, await cli.run('workspace', 'create', '--name', 'acme'), 65, /a workspace acme already exists, choose/);
	refused(t, await cli.run('workspace', 'show', 'nix'), 65, /workspace nix not found, see mailctl workspace list/);
	refused(t, await cli.run('workspace', 'update', 'acme'), 64, /nothing to change, use at least one/);
	refused(t, await cli.run('workspace', 'pause'), 64, /required option '--reason <reason>' not specified/);
});

test('workspace: pool, route and queue lifetime', async t => {
	const cli = await newCli(t, {
		MAILCTL_SOURCE_ADDRESSES: '192.0.2.1,192.0.2.2',
		MAILCTL_SOURCE_POOLS: 'otp=192.0.2.1,bulk=192.0.2.2',
	});
	const url = 'smtps://app:hunter2@relay.example,smtp://b.example';
	const shown = 'smtps://app:***@relay.example,smtp://b.example';
	await cli.json('workspace', 'create', '--name', 'acme', '--pool', 'otp', '--route', url, '--queue-lifetime', '30m');
	const text = await cli.text('workspace', 'show');
	golden(t, 'workspace-show-route', text);
	t.like(await cli.json('workspace', 'show'), {source_pool: 'otp', route: shown, queue_lifetime: 1800});
	t.false(text.includes('hunter2'));
	t.like(await cli.json('workspace', 'update', '--pool', 'bulk', '--route', 'smtp://c.example'), {
		source_pool: 'bulk',
		route: 'smtp://c.example',
	});
	const back = ['--pool', 'default', '--route', 'default', '--queue-lifetime', 'default'];
	const none = {source_pool: null, route: null, queue_lifetime: null};
	t.like(await cli.json('workspace', 'update', ...back), none);

	const update = async (...options: readonly string[]) => await cli.run('workspace', 'update', ...options);
	refused(t, await update('--pool', 'gone'), 65, /pool gone not found in MAILCTL_SOURCE_POOLS, use otp, bulk/);
	refused(t, await update('--route', 'relay'), 65, /the route relay needs MAILCTL_RELAY_URL, set it, or use the URL/);
	refused(t, await update('--route', 'elsewhere'), 64, /--route is neither mx nor relay nor the URL of a smarthost/);
	refused(t, await update('--route', 'smtp://app:hunter2@'), 64, /--route has no valid host name or address, use mx/);
	const given = await cli.runWith(`${url}\n`, 'workspace', 'update', '--route', '-', '--json');
	t.is(JSON.parse(given.stdout).route, shown, 'a password that no list of processes shows');
	refused(
		t,
		await cli.runWith('elsewhere', 'workspace', 'update', '--route', '-'),
		64,
		/--route is neither mx nor relay/,
	);
	const open = await update('--route', 'smtp://app:hunter2@relay.example?tls=none');
	refused(t, open, 64, /--route would send the password unencrypted/);
	t.false(open.stderr.includes('hunter2'));
});

test('config pace prints the rules in force, and those that apply to a domain', async t => {
	const dns = await startFakeDns(t, {
		'shop.example': {
			mx: [
				[20, 'mta6.am0.yahoodns.net'],
				[10, 'mta5.am0.yahoodns.net'],
			],
		},
		'broken.example': 'servfail',
	});
	const cli = await newCli(t, {MAILCTL_DNS_SERVERS: dns.server, MAILCTL_SOURCE_ADDRESSES: '192.0.2.1,2001:db8::1'});
	golden(t, 'config-pace', await cli.text('config', 'pace'));
	golden(t, 'config-pace-domain', await cli.text('config', 'pace', 'shop.example'));
	t.like(await cli.json('config', 'pace', 'Shop.example'), {
		domain: 'shop.example',
		mx: ['mta5.am0.yahoodns.net', 'mta6.am0.yahoodns.net'],
		site: '(mta5|mta6).am0.yahoodns.net from 192.0.2.1+2001:db8::1',
		entry: 'yahoo',
		connections: 10,
		sources: ['192.0.2.1', '2001:db8::1'],
	});
	t.regex(
		await cli.text('config', 'pace', 'broken.example'),
		/mail servers +unknown, DNS did not respond: ESERVFAIL/,
	);
	t.regex(await cli.text('config', 'pace', 'gone.example'), /mail servers +none, the domain does not exist/);
	refused(t, await cli.run('config', 'pace', '@'), 65, /@ is not a valid domain name/);
});

test('workspace: default topic, which must exist', async t => {
	const cli = await newCli(t);
	await withWorkspace(cli);
	const update = ['workspace', 'update', '--default-topic'];
	refused(t, await cli.run(...update, 'product'), 65, /topic product not found/);
	await cli.json('topic', 'create', '--code', 'product', '--name', 'Product mail');
	t.like(await cli.json(...update, 'product'), {default_topic: 'product'});
	t.regex(await cli.text('workspace', 'show'), /default topic +product/);
	t.like(await cli.json(...update, ''), {default_topic: null});
	await cli.json(...update, 'product');
	t.like(await cli.json(...update, 'none'), {default_topic: null});
});

test('workspace: retention of messages and of their content', async t => {
	const cli = await newCli(t, {MAILCTL_RETENTION_DAYS: '30'});
	await withWorkspace(cli);
	const update = ['workspace', 'update'];
	t.like(await cli.json(...update, '--retention-days', '30', '--content-days', '3'), {
		retention_days: 30,
		content_days: 3,
	});
	t.regex(await cli.text('workspace', 'show'), /content retention \(days\) +3\n/);
	t.regex(await cli.text(...update, '--content-days', '1'), /content retention \(days\) +1\n/);
	refused(t, await cli.run(...update, '--content-days', '31'), 65, /exceeds MAILCTL_RETENTION_DAYS \(30\)/);
	refused(t, await cli.run(...update, '--content-days', '0'), 64, /--content-days/);
	t.like(await cli.json(...update, '--content-days', 'none'), {retention_days: 30, content_days: null});
});

test('workspace: limits on the number and size of attachments', async t => {
	const cli = await newCli(t);
	await withWorkspace(cli);
	const update = ['workspace', 'update'];
	t.like(await cli.json(...update, '--max-attachments', '10', '--max-attachment-size', '10MiB'), {
		max_attachments: 10,
		max_attachment_bytes: 10_485_760,
	});
	t.regex(await cli.text('workspace', 'show'), /attachments per send +10\nattachment size +10MiB\n/);
	refused(t, await cli.run(...update, '--max-attachments', '21'), 64, /--max-attachments "21" is not allowed/);
	refused(t, await cli.run(...update, '--max-attachment-size', '26MiB'), 64, /is not allowed, use at most 25MiB/);
	refused(t, await cli.run(...update, '--max-attachment-size', 'big'), 64, /use a size such as/);
	t.like(await cli.json(...update, '--max-attachments', 'default', '--max-attachment-size', 'none'), {
		max_attachments: null,
		max_attachment_bytes: null,
	});
});

test('workspace: limits on topics, domains, keys and other objects', async t => {
	const cli = await newCli(t);
	await withWorkspace(cli);
	const update = ['workspace', 'update'];
	const limits = {
		...{topics: 1000, public_topics: 200, inbound_addresses: 1000, domains: 1000},
		...{keys: 1000, alerts: 50, templates: 2000, layouts: 200},
	};
	t.like(await cli.json('workspace', 'show'), {limits});
	t.like(await cli.json(...update, '--max-topics', '1', '--max-public-topics', '0'), {
		limits: {...limits, topics: 1, public_topics: 0},
	});
	t.regex(await cli.text('workspace', 'show'), /\nlimits +topics 1, public topics 0\n/);
	await cli.json('topic', 'create', '--code', 'a', '--name', 'A');
	const more = await cli.run('topic', 'create', '--code', 'b', '--name', 'B');
	refused(t, more, 65, /the workspace may have at most 1 topics, remove one first/);
	refused(t, await cli.run(...update, '--max-domains', '-1'), 64, /--max-domains/);
	t.like(await cli.json(...update, '--max-topics', 'default', '--max-public-topics', 'default'), {limits});
});

test('workspace: branding of the hosted pages', async t => {
	const cli = await newCli(t);
	await cli.json('workspace', 'create', '--name', 'acme', '--brand-color', '#0A7D4F');
	const logo = 'https://shop.example/logo.png';
	const changed = await cli.json<{branding: unknown}>(
		...[
			'workspace',
			'update',
			'--brand-name',
			'The Shop',
			'--brand-logo',
			logo,
			'--brand-support',
			'hi@shop.example',
		],
	);
	t.deepEqual(changed.branding, {
		name: 'The Shop',
		logo_url: logo,
		accent: '#0a7d4f',
		support_email: 'hi@shop.example',
	});
	t.like(await cli.json('workspace', 'update', '--brand-name', 'none', '--locale', 'de'), {
		branding: {name: null, logo_url: logo},
	});
	t.regex(
		await cli.text('workspace', 'show'),
		/brand logo +https:.*\nbrand color +#0a7d4f\nsupport address +hi@shop\.example/,
	);

	for (const [option, value, mend] of [
		['--brand-logo', 'http://shop.example/logo.png', /use an https URL of an image/],
		['--brand-logo', 'https://a;b.example/x', /use an https URL of an image/],
		['--brand-color', 'green', /use six hex digits such as #0a7d4f/],
		['--brand-support', 'hi', /use a bare address/],
	] as const) {
		refused(t, await cli.run('workspace', 'update', option, value), 64, mend);
	}
});

test('--workspace is optional with one workspace and required with several', async t => {
	const cli = await newCli(t);
	await cli.json('migrate');
	refused(t, await cli.run('key', 'list'), 65, /no workspace exists yet, create one with mailctl workspace create/);
	const acme = await withWorkspace(cli);
	await cli.json('key', 'create', '--name', 'one');
	await withWorkspace(cli, 'other');
	refused(
		t,
		await cli.run('key', 'list'),
		64,
		/several workspaces exist \(other, acme\), select one with --workspace/,
	);
	refused(t, await cli.run('key', 'list', '--workspace', 'nix'), 65, /workspace nix not found/);
	t.is((await cli.json<Named[]>('key', 'list', '--workspace', 'acme')).length, 1);
	t.is((await cli.json<Named[]>('--workspace', acme.id, 'key', 'list')).length, 1);
	t.is((await cli.json<Named[]>('key', 'list', '--workspace', 'other')).length, 0);
});

test('key: create, list, rotate, revoke', async t => {
	const cli = await newCli(t);
	await withWorkspace(cli);
	const made = await cli.json<Named & {key: string; scopes: string[]}>('key', 'create', '--name', 'app');
	t.like(made, {name: 'app', mode: 'live', active: true, rate_limit: null, expires_at: null});
	t.regex(made.key, /^key_live_[0-9A-Za-z]{38}$/);
	t.true(made.scopes.includes('messages:send') && made.scopes.includes('usage:read'));
	const limited = await cli.json<Named & {expires_at: string}>(
		...['key', 'create', '--name', 'ci', '--mode', 'test'],
		...['--scope', 'messages:send,messages:read', '--scope', 'usage:read'],
		...['--rate-limit', '5/1', '--expires', '2099-01-01'],
	);
	t.like(limited, {
		mode: 'test',
		scopes: ['messages:send', 'messages:read', 'usage:read'],
		rate_limit: '5/1',
		expires_at: '2099-01-01T00:00:00.000Z',
	});
	golden(t, 'key-create', await cli.text('key', 'create', '--name', 'people', '--scope', 'messages:send'));

	const rotated = await cli.json<Named & {key: string}>('key', 'rotate', made.id, '--overlap', '1h');
	t.not(rotated.key, made.key);
	t.not(rotated.id, made.id);
	const revoked = await cli.json<{revoked_at: string}>('key', 'revoke', limited.id);
	t.truthy(revoked.revoked_at);
	const list = await cli.json<Array<Named & {active: boolean; key?: string; expires_at: string | null}>>(
		'key',
		'list',
	);
	t.deepEqual(
		list.map(({name, active}) => [name, active]),
		[
			['app', true],
			['people', true],
			['ci', false],
			['app', true],
		],
	);
	t.truthy(list[3]?.expires_at);
	t.false(JSON.stringify(list).includes(made.key), 'a key is shown once');
	golden(t, 'key-list', await cli.text('key', 'list'));

	refused(t, await cli.run('key', 'revoke', limited.id), 65, /is already revoked/);
	refused(t, await cli.run('key', 'revoke', 'key_x'), 65, /key key_x not found, see mailctl key list/);
	refused(t, await cli.run('key', 'rotate', limited.id), 65, /has expired or been revoked, create a new one/);

	const lines = (await cli.text('key', 'create', '--name', 'with every scope')).split('\n');
	const wide = lines.filter(line => line.length > 80);
	t.deepEqual(wide, []);
});

type Domain = Named;

test('sender: add, list, verify, disable, enable, remove', async t => {
	const cli = await newCli(t);
	await withWorkspace(cli);
	const added = await cli.json('sender', 'add', 'no-reply@shop.example', '--name', 'Kaffee & Größe', '--verified');
	t.like(added, {address: 'no-reply@shop.example', name: 'Kaffee & Größe', verified: true, active: true});
	t.like(await cli.json('sender', 'add', 'new@shop.example'), {verified: false, active: true});
	t.is((await cli.json<Domain[]>('domain', 'list')).length, 1, 'the domain came with the first one');
	golden(t, 'sender-add', await cli.text('sender', 'add', 'third@shop.example'));
	t.like(await cli.json('sender', 'verify', 'NEW@shop.example'), {verified: true});
	t.like(await cli.json('sender', 'disable', 'new@shop.example'), {verified: true, active: false});
	golden(t, 'sender-list', await cli.text('sender', 'list'));
	t.like(await cli.json('sender', 'enable', 'new@shop.example'), {active: true});

	refused(
		t,
		await cli.run('sender', 'remove', 'new@shop.example'),
		64,
		/this destroys data, and there is no terminal to confirm it, add --yes/,
	);
	t.is((await cli.json<object[]>('sender', 'list')).length, 3);
	t.deepEqual(await cli.json('sender', 'remove', 'new@shop.example', '--yes'), {
		address: 'new@shop.example',
		removed: true,
	});
	refused(
		t,
		await cli.run('sender', 'remove', 'new@shop.example', '--yes'),
		65,
		/sender new@shop\.example not found/,
	);
	refused(t, await cli.run('sender', 'verify', 'new@shop.example'), 65, /sender new@shop\.example not found/);
	refused(t, await cli.run('sender', 'add', 'no-reply@shop.example'), 65, /already exists/);
	refused(
		t,
		await cli.run('sender', 'add', 'A <a@b.example>'),
		65,
		/is not a valid address, it must be a bare address/,
	);
});
