import {strangerTo, visitorOf} from '../../helpers/dashboard.ts';
import type {Workspace} from '../../helpers/service.ts';
import {journeysOf, service} from './stage.ts';

const journey = journeysOf('people');
const password = 'correct horse battery';

journey('a user opens a link, sets a password, and signs in with it', async (t, {open, own}) => {
	const {url, program} = service();
	const email = own('first@staff.example');
	const {link} = await program.cli<{link: string}>('user', 'add', email, '--role', 'viewer');
	const {page, type, press} = await open(strangerTo(url));
	await page.goto(link);
	await type('New password', password);
	await press('Set the password');
	await page.getByText('The password is set.').waitFor();
	await press('Sign out');
	await page.getByText('You are signed out.').waitFor();
	await type('Email', email);
	await type('Password', password);
	await press('Sign in');
	await page.getByRole('heading', {name: 'Messages'}).waitFor();
	t.regex(new URL(page.url()).pathname, /^\/w\/[^/]+\/messages$/);
});

journey('a user signs out all other sessions', async (t, {open, own}) => {
	const {url, program} = service();
	const email = own('lost@staff.example');
	const [here, lost] = [strangerTo(url), strangerTo(url)];
	for (const [visitor, verb] of [[here, 'add'] as const, [lost, 'link'] as const]) {
		const role = verb === 'add' ? ['--role', 'viewer'] : [];
		const {link} = await program.cli<{link: string}>('user', verb, email, ...role);
		await visitor.get(new URL(link).pathname);
	}
	const [first, second] = [await open(here), await open(lost)];
	await second.page.goto('/messages');
	await first.page.goto('/messages');
	await first.press(email, 'a');
	await first.press('More', 'summary');
	await first.press('Sign out everywhere else…', 'summary');
	await first.press('Sign out everywhere else');
	await first.page.getByText('All other sessions have ended.').waitFor();
	// Its list looks for news, and is answered that the session has ended.
	const look = second.page.evaluate(`document.body.dispatchEvent(new Event('mail'))`);
	await look.catch(() => undefined); // It may have looked already, and be on its way.
	await second.page.waitForURL('**/login?to=*');
	t.pass();
});

journey('an admin adds a user and changes their role', async (t, {open, own, suitsAll}) => {
	const email = own('new@staff.example');
	const {page, go, press, type, choose, open: openRow} = await open(await visitorOf(service(), 'admin'));
	await page.goto('/messages');
	await go('Users');
	await press('Add a user', 'summary');
	await type('Email', email);
	await choose('Role', 'operator: manages mail and lists');
	await press('Add');
	await suitsAll(page);
	const link = await page.locator('.copyable code').innerText();

	const theirs = await open(strangerTo(service().url));
	await theirs.page.goto(link);
	await theirs.page.goto('/keys');
	t.is(await theirs.page.getByText('New key').count(), 0);

	await press('Back to the users', 'a');
	await openRow(email);
	await choose('Role', 'admin: manages everything');
	await press('Save');
	await page.getByText('Saved. It takes effect immediately.').waitFor();
	await theirs.page.reload();
	t.is(await theirs.page.getByText('New key').count(), 1);
});

journey('a viewer visits every page and finds nothing to change', async (t, {open}) => {
	const {live, from, templates} = service().workspaces.shop as Workspace;
	await live.post('/v1/messages', {from, to: 'ann@dest.example', templateId: templates.plain, data: {name: 'Ann'}});
	const {page, go} = await open(await visitorOf(service(), 'viewer', 'shop'));
	await page.goto('/messages');
	const places = await page.locator('nav.side .menu li a').allInnerTexts();
	t.is(places.length, 17, 'all but Users, Audit and Health');
	for (const place of places) {
		await go(place);
		await page.waitForURL(new RegExp(`/${place.toLowerCase()}`));
		t.is(await page.getByText('This requires the role').count(), 0, place);
		for (const form of await page.locator('main form[method=post]').all()) {
			t.is(await form.getAttribute('action'), '/returned/explain', place);
		}
	}
});
