import test, {type ExecutionContext} from 'ava';
import type {Page} from 'playwright-core';
import {browserOf, browserWaitMs} from '../helpers/browser.ts';
import {strangerTo} from '../helpers/dashboard.ts';
import {faultsOf, openWindow} from '../helpers/dashboard-browser.ts';
import {serviceOf} from '../helpers/service.ts';

// What people do with a browser; what the pages answer is in log-in.test.ts.
const service = serviceOf(test, {workspaces: {shop: []}});
const browserFor = browserOf(test);
const password = 'correct horse battery';

/** Passkeys are bound to a hostname, so the browser uses `localhost`. */
async function openAt(t: ExecutionContext): Promise<{page: Page; base: string; link: string; email: string} | null> {
	const browser = await browserFor(t);
	if (browser === null) {
		return null;
	}
	const {port} = new URL(service().url);
	const base = `http://localhost:${port}`;
	const page = await browser.newPage();
	page.context().setDefaultTimeout(browserWaitMs);
	t.teardown(() => page.context().close());
	const email = 'ann@staff.example';
	const {link} = await service().program.cli<{link: string}>('user', 'add', email, '--role', 'admin');
	return {page, base, link: `${base}${new URL(link).pathname}`, email};
}

test.serial('without scripts a user signs in by password and is offered no passkey', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		t.pass();
		return;
	}
	const {url, program} = service();
	const {link} = await program.cli<{link: string}>('user', 'add', 'eve@staff.example', '--role', 'viewer');
	const {page} = await openWindow(browser, {url, visitor: strangerTo(url), script: false});
	await page.goto(link);
	await page.getByLabel('New password').fill(password);
	await page.keyboard.press('Enter');
	await page.getByText('The password is set.').waitFor();
	await page.goto('/users');
	await page.getByText('This requires the role admin').waitFor();
	await page.goto('/account');
	await page.getByRole('button', {name: 'Sign out', exact: true}).first().click();
	t.is(await page.getByRole('button', {name: 'Sign in with a passkey'}).count(), 0);
	await page.getByLabel('Email').fill('eve@staff.example');
	await page.keyboard.press('Tab');
	await page.keyboard.type(password);
	await page.keyboard.press('Enter');
	await page.getByRole('heading', {name: 'Messages'}).waitFor();
	t.regex(new URL(page.url()).pathname, /^\/w\/[^/]+\/messages$/);
});

test.serial('first login by link, then by passkey and password, then ten wrong passwords', async t => {
	const opened = await openAt(t);
	if (opened === null) {
		t.pass();
		return;
	}
	const {page, base, link, email} = opened;
	const faults: string[] = [];
	page.on('console', message => message.type() === 'error' && faults.push(message.text()));
	page.on('pageerror', error => faults.push(error.message));
	const devtools = await page.context().newCDPSession(page);
	await devtools.send('WebAuthn.enable');
	await devtools.send('WebAuthn.addVirtualAuthenticator', {
		options: {
			protocol: 'ctap2',
			transport: 'internal',
			hasResidentKey: true,
			hasUserVerification: true,
			isUserVerified: true,
			automaticPresenceSimulation: true,
		},
	});

	await page.goto(link);
	t.deepEqual(await faultsOf(page), []);
	await page.getByLabel('Name of the passkey').fill('Laptop');
	await page.getByRole('button', {name: 'Add a passkey'}).click();
	await page.getByText('The passkey is added.').waitFor();
	await page.getByText('Set up', {exact: true}).click();
	t.deepEqual(await faultsOf(page), []);
	await page.goto(`${base}/confirm`);
	t.deepEqual(await faultsOf(page), []);
	await page.goto(`${base}/account`);
	t.true(await page.getByRole('cell', {name: 'Laptop'}).isVisible());
	await page.getByLabel('New password').fill(password);
	await page.getByRole('button', {name: 'Set the password'}).click();
	await page.getByText('The password is set.').waitFor();

	await page.getByRole('button', {name: 'Sign out', exact: true}).first().click();
	await page.getByText('You are signed out.').waitFor();
	t.deepEqual(await faultsOf(page), []);
	await page.getByRole('button', {name: 'Sign in with a passkey'}).click();
	await page.getByRole('heading', {name: 'Messages'}).waitFor();
	t.regex(new URL(page.url()).pathname, /^\/w\/[^/]+\/messages$/);

	await page.getByRole('button', {name: 'Sign out', exact: true}).first().click();
	await page.goto(`${base}/account`);
	await page.getByLabel('Email').fill(email);
	await page.getByLabel('Password').fill(password);
	await page.keyboard.press('Enter');
	await page.getByRole('heading', {name: email}).waitFor();
	t.is(new URL(page.url()).pathname, '/account', 'where one wanted to go');
	t.deepEqual(faults, []);

	await page.getByRole('button', {name: 'Sign out', exact: true}).first().click();
	for (let n = 0; n < 11; n++) {
		await page.getByLabel('Email').fill(email);
		await page.getByLabel('Password').fill(n < 10 ? `wrong ${n}` : password);
		const answer = page.waitForResponse(response => response.request().method() === 'POST');
		await page.getByRole('button', {name: 'Sign in', exact: true}).click();
		t.is((await answer).status(), n < 10 ? 403 : 429);
		t.is('retry-after' in (await answer).headers(), n === 10);
		await page
			.getByRole('alert')
			.filter({hasText: n < 10 ? 'is wrong' : 'Try again in'})
			.waitFor();
	}
});
