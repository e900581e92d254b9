import {mkdir, rm, writeFile} from 'node:fs/promises';
import process from 'node:process';
import {launchBrowser} from '../helpers/browser.ts';
import {withPalette} from './palette.ts';
import {type Shop, startShop} from './shop.ts';

// `npm run pictures`: makes docs/ui anew, a picture of each page of the dashboard as a shop's operator sees it; with
// names after `--` only theirs.

const folder = 'docs/ui';
const looks = [
	{name: 'wide-light', width: 1200, height: 750, colorScheme: 'light'},
	{name: 'wide-dark', width: 1200, height: 750, colorScheme: 'dark'},
	{name: 'phone-light', width: 390, height: 780, colorScheme: 'light'},
] as const;

/** The path of each page, and behind a # the heading that the picture begins with. */
const pagesOf = ({ids}: Shop): Readonly<Record<string, string>> => ({
	messages: '/messages',
	'messages-scheduled': '/messages?status=scheduled',
	message: `/messages/${ids.bounced}`,
	'message-scheduled': `/messages/${ids.scheduled}`,
	'message-waits': `/messages/${ids.waiting}`,
	preview: `/messages/${ids.bounced}/preview`,
	overview: '/overview',
	queue: '/queue',
	destination: '/queue/campus.example',
	deliverability: '/deliverability',
	returned: '/returned',
	received: '/received',
	'received-mail': `/received/${ids.received}`,
	domains: '/domains',
	domain: `/domains/${ids.domain}`,
	dmarc: `/domains/${ids.domain}/dmarc`,
	templates: '/templates',
	template: `/templates/${ids.template}`,
	'template-settings': `/templates/${ids.reset}#Settings`,
	'template-edit': `/templates/${ids.template}/edit`,
	layouts: '/layouts',
	layout: '/layouts/layout/main',
	'layout-change': '/layouts/layout/main',
	webhooks: '/webhooks',
	webhook: `/webhooks/${ids.webhook}`,
	smarthosts: '/smarthosts',
	keys: '/keys',
	suppressions: '/suppressions',
	topics: '/topics',
	contacts: '/contacts',
	contact: `/contacts/${ids.contact}`,
	workspaces: '/workspaces',
	workspace: `/workspaces/${ids.workspace}`,
	'workspace-settings': `/workspaces/${ids.workspace}#Settings`,
	users: '/users',
	audit: '/audit',
	alerts: '/alerts',
	health: '/health',
	checks: '/health/checks',
	account: '/account',
});

async function draw(shop: Shop): Promise<void> {
	const browser = await launchBrowser();
	if (browser === null) {
		throw new Error('there is no Chromium on the PATH, install one (scripts/debian-browser.sh)');
	}
	endings.push(() => browser.close());
	const page = await (await browser.newContext({baseURL: shop.url})).newPage();
	const {link} = await shop.program.cli<{link: string}>('user', 'link', 'ann@shop.example');
	await page.goto(new URL(link).pathname);
	await page.goto('/w/shop/messages');
	await page.getByText('Your order').filter({visible: true}).first().waitFor();
	const named = process.argv.slice(2);
	if (named.length === 0) {
		await rm(folder, {recursive: true, force: true});
	}
	await mkdir(folder, {recursive: true});
	const wanted = Object.entries(pagesOf(shop)).filter(([name]) => named.length === 0 || named.includes(name));
	for (const [name, place] of wanted) {
		const [path = '', heading] = place.split('#');
		for (const {name: look, width, height, colorScheme} of looks) {
			await page.setViewportSize({width, height});
			await page.emulateMedia({colorScheme, reducedMotion: 'reduce'});
			await page.goto(path, {waitUntil: 'load'});
			if (name === 'layout-change') {
				const file = page.locator('textarea').first();
				await file.fill((await file.inputValue()).replace('#14352a', '#3d1435'));
				await page.getByRole('button', {name: 'Show what would change'}).click();
				await page.getByText('Saving this creates').waitFor();
			}
			if (heading) {
				await page.getByRole('heading', {name: heading, exact: true}).evaluate(part => {
					part.style.scrollMarginTop = '1.5rem';
					part.scrollIntoView();
				});
			}
			// A page in a frame, the curves, and what htmx asks for at once.
			await page.waitForTimeout(300);
			await writeFile(`${folder}/${name}-${look}.png`, withPalette(await page.screenshot()));
		}
	}
}

const endings: Array<() => unknown> = [];
const scope = {
	passed: true,
	log: (...lines: readonly unknown[]) => console.log(...lines),
	teardown: (work: () => unknown) => void endings.push(work),
};

try {
	await draw(await startShop(scope));
} catch (error) {
	scope.passed = false;
	console.error(error);
	process.exitCode = 1;
} finally {
	for (let end = endings.pop(); end; end = endings.pop()) {
		await end();
	}
	process.exit();
}
