import test from 'ava';
import {browserOf} from '../helpers/browser.ts';
import {visitorOf} from '../helpers/dashboard.ts';
import {openWindow} from '../helpers/dashboard-browser.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {serviceOf} from '../helpers/service.ts';
import {waitFor} from '../helpers/wait.ts';

const service = serviceOf(test, {
	workspaces: {shop: []},
	settings: async scope => ({
		MAILCTL_HOSTNAME: 'mail.lab.test',
		MAILCTL_DNS_SERVERS: (await startFakeDns(scope, {'mail.lab.test': {a: ['127.0.0.1']}})).server,
		MAILCTL_ACME: 'true',
		MAILCTL_ACME_DIRECTORY: 'https://127.0.0.1:1/directory',
	}),
});
const browserFor = browserOf(test);

test('health shows the process, its store and a link to the checks', async t => {
	const {text} = await (await visitorOf(service(), 'admin')).get('/health');
	t.regex(text, /<dt>Version<\/dt><dd>\d+\.\d+\.\d+/);
	t.regex(text, /<dt>Size<\/dt><dd>[\d.,]+ (KB|MB)<\/dd>/);
	t.regex(text, /<dt>Free space<\/dt><dd>[\d.,]+ [KMGT]B<\/dd>/);
	t.regex(text, /api, deliver/);
	t.regex(text, /<a href="\/health\/checks">Run the checks<\/a>/);
});

test('health shows each certificate and why the CA did not issue one', async t => {
	const visitor = await visitorOf(service(), 'admin');
	await waitFor('the fault of an order', async () =>
		/<span class="badge bad">failed<\/span><\/td><td><div class="told"><bdi>mail\.lab\.test<\/bdi>.*the CA at 127\.0\.0\.1:1 does not respond/s.test(
			(await visitor.get('/health')).text,
		),
	);
	t.regex((await visitor.get('/health')).text, /<h2[^>]*>Certificates<\/h2>/);
});

test('runs the checks of doctor', async t => {
	const {text} = await (await visitorOf(service(), 'admin')).get('/health/checks');
	const checks = [...text.matchAll(/<span class="badge \w+">(ok|warn|fail)<\/span><\/td><td[^>]*>([\w-]+)<\/td>/g)];
	// The command exits with 1 where a check failed, as on a machine without room.
	const found = await service().program.cli<Array<{check: string}>>('doctor');
	t.deepEqual(checks.map(([, , check]) => check).toSorted(), found.map(({check}) => check).toSorted());
	t.regex(text, /ready at http:/);
});

test('runs the checks automatically in a browser, and through a link without scripts', async t => {
	const browser = await browserFor(t);
	if (browser === null) {
		return;
	}
	const {url} = service();
	const visitor = await visitorOf(service(), 'admin');
	const {page, complaints} = await openWindow(browser, {url, visitor});
	await page.goto('/messages');
	await page.keyboard.press('g');
	await page.keyboard.press('h');
	await page.waitForURL(/\/health$/);
	await page.getByText('Check again').waitFor();
	t.deepEqual(complaints, []);

	const bare = await openWindow(browser, {url, visitor, script: false});
	await bare.page.goto('/health');
	await bare.page.getByRole('link', {name: 'Run the checks'}).click();
	await bare.page.getByText('Check again').waitFor();
	t.pass();
});
