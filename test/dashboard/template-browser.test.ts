import {type AddressInfo, createServer} from 'node:net';
import test from 'ava';
import type {Browser, Page} from 'playwright-core';
import {visitorOf} from '../helpers/dashboard.ts';
import {faultsOf, openWindow} from '../helpers/dashboard-browser.ts';
import {waitFor} from '../helpers/wait.ts';
import {browserFor, service} from './service.ts';

async function openAs(browser: Browser, script = true, workspace = 'shop') {
	const visitor = await visitorOf(service(), 'operator', workspace);
	return {visitor, ...(await openWindow(browser, {url: service().url, visitor, script}))};
}

const shownBy = (page: Page) => page.frameLocator('iframe:visible').locator('body');

test.serial('without scripts a preview is one click away, and checks run before saving', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const {page} = await openAs(browser, false);
	await page.goto('/templates');
	await page.getByText('New template').click();
	await page.getByLabel('Name').fill('welcome');
	await page.getByRole('button', {name: 'Create template'}).click();
	await page.getByRole('button', {name: 'Preview'}).click();
	await shownBy(page).getByText('Hello Zoë').waitFor();
	await page.getByRole('textbox', {name: /^Sample variables/}).fill('{"name": "Zoë"}');
	await page.getByRole('button', {name: 'Check'}).click();
	await page.getByText('Not in the sample: order.').waitFor();
	t.is(await page.getByRole('textbox', {name: /^Sample variables/}).inputValue(), '{"name": "Zoë"}');
	await page.getByRole('button', {name: 'Save as a new version'}).click();
	await page.getByText('Saved version 1.').waitFor();
});

test.serial('every other state of the editor is accessible, and a test links to its message', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const {page, visitor, complaints} = await openAs(browser, true, 'bare');
	const {templates = {}} = service().workspaces.bare ?? {};
	for (const [typed, id] of Object.entries(templates)) {
		await visitor.submit(`/templates/${id}/delete`, {typed});
	}
	await page.goto('/templates');
	await page.getByText('No templates yet.').waitFor();
	await page.getByText('New template').click();
	await page.getByLabel('Name').fill('welcome');
	await page.getByLabel(/^Id/).fill('tpl_welcome');
	await page.getByRole('button', {name: 'Create template'}).click();
	await page.goto('/templates/tpl_welcome');
	await page.getByText('No version has been saved yet.').waitFor();
	t.deepEqual(await faultsOf(page), []);

	await page.getByRole('link', {name: 'Edit', exact: true}).click();
	const first = {begun: '', locale: '', subject: 'Hi', kind: 'html', source: '<p>Hi</p>', text: '', sample: ''};
	await visitor.submit('/templates/tpl_welcome/edit', first);
	await page.getByRole('button', {name: 'Save as a new version'}).click();
	await page.getByText('version 1 was saved while you edited the first one').waitFor();
	await shownBy(page).getByText('Hello Zoë').waitFor();
	t.deepEqual(await faultsOf(page), []);
	t.deepEqual(complaints.splice(0).length, 1, 'the browser tells of the status 409');

	await page.goto('/templates/tpl_welcome');
	await page.getByText('Send a test').click();
	await page.getByLabel('Recipient', {exact: true}).fill('ann@dest.example');
	await page.getByRole('button', {name: 'Send it'}).click();
	await page.waitForURL(/\/messages\/msg_/);
	await page.getByText('Version 1 is on its way to ann@dest.example.').waitFor();
	t.deepEqual(complaints, []);
});

test.serial('hostile source in a preview loads nothing', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	let visits = 0;
	const evil = createServer(socket => {
		visits++;
		socket.on('error', () => undefined);
		socket.destroy();
	});
	await new Promise<void>(resolve => {
		evil.listen(0, '127.0.0.1', resolve);
	});
	t.teardown(() => evil.close());
	const host = `127.0.0.1:${(evil.address() as AddressInfo).port}`;

	const {page, visitor} = await openAs(browser);
	const id = 'tpl_hostile';
	await visitor.submit('/templates', {name: 'hostile', id});
	const fields = {
		begun: '',
		subject: '<script>alert(1)</script>',
		kind: 'html',
		source: hostileSource(host),
		sample: '',
	};
	t.is((await visitor.submit(`/templates/${id}/edit`, fields)).location, `/templates/${id}`);

	const dialogs: string[] = [];
	page.on('dialog', dialog => {
		dialogs.push(dialog.message());
		void dialog.dismiss();
	});
	for (const tail of ['', '?show=phone', '/edit']) {
		const path = `/w/shop/templates/${id}${tail}`;
		await page.goto(path);
		await shownBy(page).getByText('the end of it').waitFor();
		await page.getByRole('heading', {level: 1, name: 'hostile'}).click({trial: true});
		t.is(new URL(page.url()).pathname, path.replace(/\?.*/, ''));
	}
	// What is being typed is shown under the same rules.
	const source = page.getByRole('textbox', {name: 'Source', exact: true});
	const typed = (await source.inputValue()).replace('the end of it', 'the very end');
	await waitFor('the preview of what was typed', async () => {
		// On a busy machine rendering may time out; typing renders again.
		await source.fill('');
		await source.fill(typed);
		const shown = shownBy(page).getByText('the very end');
		return await shown.waitFor({timeout: 15_000}).then(
			() => true,
			() => false,
		);
	});
	t.is(visits, 0);
	t.deepEqual(dialogs, []);
	t.deepEqual(
		page.frames().map(frame => new URL(frame.url()).pathname),
		[`/w/shop/templates/${id}/edit`, `/w/${service().workspaces.shop?.id}/templates/${id}/draft`],
	);

	// Asked for, images of the web load, so the host above would have seen what else asks for it.
	await page.goto(`/templates/${id}?images=1`);
	await shownBy(page).getByText('the end of it').waitFor();
	await page.waitForLoadState('networkidle');
	t.true(visits > 0);
});

function hostileSource(host: string): string {
	const url = `http://${host}`;
	return `<html><head><base href="${url}/"><meta http-equiv="refresh" content="0;url=${url}/refresh">
<link rel="preconnect" href="${url}"><link rel="dns-prefetch" href="//${host}"><link rel="stylesheet" href="${url}/style.css">
<style>@import "${url}/import.css"; @font-face {font-family: x; src: url(${url}/font)}
body {font-family: x; background: url(${url}/background)} .cover {position: fixed; inset: 0; z-index: 99999; background: red}</style>
<script>top.location = '${url}/top'; fetch('${url}/fetch'); alert(document.cookie)</script></head>
<body onload="location = '${url}/onload'"><div class="cover" onclick="alert(1)"></div>
<img src="${url}/image" srcset="${url}/large 2x" onerror="alert(2)"><img src="https://${host}/image">
<iframe src="${url}/frame"></iframe><iframe srcdoc="<script>parent.parent.location='${url}'</script>"></iframe>
<object data="${url}/object"></object><embed src="${url}/embed"><video src="${url}/video" autoplay></video><audio src="${url}/audio" autoplay></audio>
<svg><use href="${url}/use#a"></use><image href="${url}/svg"></image><script>alert(3)</script></svg>
<form action="${url}/form"><input name="a" autofocus onfocus="this.form.submit()"><button>Send</button></form>
<a href="${url}/link" target="_top" ping="${url}/ping">out</a><math><mtext><script>alert(4)</script></mtext></math>
<portal src="${url}/portal"></portal><p>the end of it</p></body></html>`;
}
