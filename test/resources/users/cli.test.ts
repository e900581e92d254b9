import test from 'ava';
import {golden, newCli, refused} from '../../helpers/cli.ts';

type Made = {readonly id: string; readonly email: string; readonly role: string; readonly link: string};

test('user: add, list, link, remove', async t => {
	const cli = await newCli(t, {MAILCTL_HTTP_LISTEN: '127.0.0.1:8125'});
	await cli.json('workspace', 'create', '--name', 'shop');
	const ann = await cli.json<Made>('user', 'add', 'Ann@Example.com', '--role', 'operator', '--workspace', 'shop');
	t.deepEqual(Object.keys(ann), ['id', 'email', 'role', 'link']);
	t.regex(ann.id, /^usr_/);
	t.like(ann, {email: 'ann@example.com', role: 'operator'});
	t.regex(ann.link, /^http:\/\/127\.0\.0\.1:8125\/login\/[\w-]{43}$/);
	const text = await cli.text('user', 'add', 'bob@example.com');
	golden(t, 'user-add', text.replace(/login\/[\w-]{43}/, 'login/TOKEN'));
	golden(t, 'user-list', await cli.text('user', 'list'));

	const [first] = await cli.json<object[]>('user', 'list', '--workspace', 'shop');
	t.like(first, {email: ann.email, password: false, totp: false, passkeys: 0, last_login_at: null});
	t.is((await cli.json<object[]>('user', 'list', '--workspace', 'shop')).length, 1);

	const link = await cli.json<Made>('user', 'link', 'ANN@example.com');
	t.is(link.id, ann.id);
	t.not(link.link, ann.link);

	refused(
		t,
		await cli.run('user', 'add', 'ann@example.com'),
		65,
		/a user ann@example\.com already exists, for a new link/,
	);
	refused(t, await cli.run('user', 'add', 'ann'), 65, /ann/);
	refused(t, await cli.run('user', 'add', 'c@example.com', '--role', 'root'), 64, /viewer, operator, admin/);
	refused(
		t,
		await cli.run('user', 'link', 'c@example.com'),
		65,
		/user c@example\.com not found, see mailctl user list/,
	);
	refused(t, await cli.run('user', 'remove', 'bob@example.com'), 64, /add --yes/);
	t.is(await cli.text('user', 'remove', 'bob@example.com', '--yes'), 'removed bob@example.com\n');
	refused(t, await cli.run('user', 'remove', 'bob@example.com', '--yes'), 65, /user bob@example\.com not found/);
});

test('prints no login link without a dashboard', async t => {
	const cli = await newCli(t, {MAILCTL_DASHBOARD: 'false'});
	const {link: first, ...made} = await cli.json<{link: string | null}>('init');
	t.is(first, null, JSON.stringify(made));
	t.deepEqual(await cli.json('user', 'list'), []);
	t.like(await cli.json('user', 'add', 'ann@example.com'), {link: null});
	t.regex(
		await cli.text('user', 'link', 'ann@example.com'),
		/No link is available because the dashboard is off \(MAILCTL_DASHBOARD/,
	);
});
