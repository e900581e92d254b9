import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import test from 'ava';
import {browserOf} from '../helpers/browser.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {openWindow} from '../helpers/dashboard-browser.ts';
import {named, pathOf, routes, thingsOf} from '../helpers/dashboard-routes.ts';
import {serviceOf} from '../helpers/service.ts';
import {unmatchedBounce} from '../helpers/unmatched-bounce.ts';

// Every page of the table of routes, with something of each kind to show: a new one is walked without being named.
const service = serviceOf(test, {workspaces: {shop: [], other: []}});
const browserFor = browserOf(test);

/** Paths of all pages that there are for an admin; what is saved or shown in a frame is none. */
let paths: readonly string[] = [];

test.serial('the store is filled with something of each kind, and each has its page', async t => {
	const {program} = service();
	const file = join(program.folder, 'returned.eml');
	await writeFile(file, unmatchedBounce('gone@dest.example'));
	await program.cli('bounce', 'ingest', file);
	const admin = await visitorOf(service(), 'admin');
	const [, returned = ''] = /href="\/returned\/([0-9a-f]{64})"/.exec((await admin.get('/returned')).text) ?? [];
	const things = {...(await thingsOf(service())), returned};
	await service().program.cli('queue', 'suspend', 'slow.example');
	const found: string[] = [];
	for (const route of routes.filter(one => one.method === 'GET')) {
		const path = pathOf(route, things) ?? route.path;
		const seen = await admin.get(path);
		t.true(path.split('/').length !== 3 || seen.status === 200, `${named(route)} answered ${seen.status}`);
		if (/<main id="main"/.test(seen.text)) {
			found.push(path);
		}
	}
	paths = found;
	t.true(paths.length > 30, `${paths}`);
});

test.serial('a viewer has no form on any page but to log out, to look, and of the own account', async t => {
	const viewer = await visitorOf(service(), 'viewer');
	const allowed = /^\/(?:logout|workspaces\/use|returned\/explain|account\/.*)$/;
	for (const path of paths) {
		const {text} = await viewer.get(path);
		const actions = [...text.matchAll(/<form method="post" action="([^"]+)"/g)].map(([, to = '']) => to);
		t.deepEqual(
			actions.filter(to => !allowed.test(to)),
			[],
			path,
		);
	}
});

test.serial('without script each page has its content', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const visitor = await visitorOf(service(), 'admin');
	const {page, context} = await openWindow(browser, {url: service().url, visitor, script: false});
	t.teardown(() => context.close());
	for (const path of paths) {
		await page.goto(path);
		t.is(await page.locator('h1').count(), 1, path);
		const shown = await page.locator('main > :not(header)').allInnerTexts();
		t.true(shown.join('').trim().length > 10, path);
		// What scripts would fetch has a link to the same; what they would make work is not offered.
		t.is(await page.locator('main [data-copy]:visible, main [data-passkeys]:visible').count(), 0, path);
	}
});
