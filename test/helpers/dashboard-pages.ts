import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {openPages} from '../../src/dashboard/pages.ts';
import {tokenIn, type Visitor} from './dashboard.ts';
import {noParts, pathOf, routes, type Things, thingsOf} from './dashboard-routes.ts';
import type {Service, Workspace} from './service.ts';
import {unmatchedBounce} from './unmatched-bounce.ts';
import {waitFor} from './wait.ts';

// Every page that the tables of routes have, with nothing to show and with something of each kind.

const gets = routes.filter(({method}) => method === 'GET');

/** What is saved, shown in a frame or sends the browser on is no page to look at. */
const isPage = (text: string): boolean => /<main id="main"/.test(text) && !/http-equiv="refresh"/.test(text);

async function pagesAmong(visitor: Visitor, paths: readonly string[], mayFail = false): Promise<readonly string[]> {
	const found: string[] = [];
	for (const path of paths) {
		const {status, text} = await visitor.get(path);
		if (status >= 400 && !mayFail) {
			throw new Error(`${path} answered ${status}: give it something to show in fill().`);
		}
		if (isPage(text)) {
			found.push(path);
		}
	}
	return found;
}

/** Pages for those who are not logged in; a link that nobody was given has one too. */
export const openPaths = (stranger: Visitor): Promise<readonly string[]> =>
	pagesAmong(
		stranger,
		openPages(noParts).flatMap(({method, path}) => (method === 'GET' ? [path.replaceAll(/:\w+/g, 'x')] : [])),
		true,
	);

/** Pages that are lists, or about nothing that must be there. */
export const emptyPaths = (visitor: Visitor): Promise<readonly string[]> =>
	pagesAmong(
		visitor,
		gets.filter(({path}) => !path.includes(':')).map(({path}) => path),
	);

/** Mail that ends in each way, to addresses and with subjects of every length. */
async function sendEach({workspaces}: Service): Promise<void> {
	const {live, from, templates} = workspaces.shop as Workspace;
	for (const kind of ['delivered', 'deferred', 'bounced', 'soft-bounced', 'complained', 'suppressed', 'errored']) {
		const data = {name: `${kind} ${'and so on '.repeat(kind.length)}${'x'.repeat(kind.length * 10)}`};
		const to = `${kind}+${'long'.repeat(kind.length)}@simulator.test`;
		await live.post('/v1/messages', {from, to, templateId: templates.plain, data, metadata: {order_id: '1042'}});
	}
	await waitFor('all ends', async () => {
		const {data} = (await live.get<{data: Array<{status: string}>}>('/v1/messages?limit=100')).body;
		return ['delivered', 'bounced', 'complained', 'suppressed', 'errored'].every(status =>
			data.some(one => one.status === status),
		);
	});
}

/** Fills the store for an admin who looks at the workspace `shop`; the paths of all pages that there are then. */
export async function fill(service: Service, admin: Visitor): Promise<readonly string[]> {
	const {program, url, workspaces} = service;
	const {id: workspace} = workspaces.shop as Workspace;
	await admin.submit('/workspaces/use', {workspace});
	const file = join(program.folder, 'returned.eml');
	await writeFile(file, unmatchedBounce('gone@dest.example'));
	await program.cli('bounce', 'ingest', file);
	const found = async (path: string, link: RegExp) => {
		const {text} = await admin.get(path);
		return link.exec(text)?.[1] ?? '';
	};
	const things: Things = {
		...(await thingsOf(service)),
		returned: await found('/returned', /href="\/returned\/([0-9a-f]{64})"/),
	};
	await program.cli('queue', 'suspend', 'slow.example', '--reason', 'they asked for it');
	await sendEach(service);
	const inside = ['--workspace', workspace];
	await program.cli('sender', 'add', `orders@secret.example`, '--name', 'Orders', ...inside);
	const sender = await found(`/domains/${things.domains}`, /href="\/domains\/\w+\/senders\/(\w+)"/);
	const delivery = await waitFor('a delivery', () =>
		found(`/webhooks/${things.webhooks}`, /href="\/webhooks\/\w+\/deliveries\/(\w+)"/).then(id => id || null),
	);
	const form = new FormData();
	form.set('_csrf', tokenIn((await admin.get('/suppressions')).text));
	form.set('file', new Blob(['recipient\nlisted@dest.example\nno address\n']), 'list.csv');
	const sent = await admin.raw('/suppressions/import', {method: 'POST', body: form, headers: {origin: url}});
	const second: Things = {domains: sender, webhooks: delivery};
	const paths = gets.map(route => {
		const path = route.path.startsWith('/suppressions/import/') ? sent.location : pathOf(route, things, second);
		return path ?? route.path;
	});
	return await pagesAmong(admin, paths);
}
