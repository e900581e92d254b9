import {mkdtemp} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import test, {type ExecutionContext} from 'ava';
import type {Page} from 'playwright-core';
import {browserOf} from '../../helpers/browser.ts';
import type {Visitor} from '../../helpers/dashboard.ts';
import {deskView, faultsOf, openWindow} from '../../helpers/dashboard-browser.ts';
import {type Hands, handsOn, type Way, ways} from '../../helpers/hands.ts';
import {type JourneyFile, type JourneyTitle, journeys, stageVariable} from '../../helpers/journey-list.ts';
import {serviceOf} from '../../helpers/service.ts';
import {type Receiver, startReceiver} from '../../helpers/webhook-receiver.ts';

export type Window = Hands & {readonly page: Page};
type Stage = {
	readonly way: Way;
	/** A workspace of the file for this way only, if the file is in `apart`. */
	readonly workspace: string;
	/** A name that only this journey uses. */
	readonly own: (name: string) => string;
	readonly open: (visitor: Visitor) => Promise<Window>;
	/** Checks the accessibility of the page as it is now, in one way only, since both show the same page. */
	readonly suitsAll: (page: Page) => Promise<void>;
};

type Journey<Title> = (title: Title, walk: (t: ExecutionContext, stage: Stage) => Promise<void>) => void;

/** Reports any use of the mouse in the keyboard's journeys. */
const noMouse = `addEventListener('pointerdown', () => console.error('A mouse was used.'), {capture: true})`;

/** The way of the stage: `npm test` leaves the keyboard to the slow tests. */
const stage = process.env[stageVariable];
const waysHere = ways.filter(way => !stage || (way === 'mouse') === (stage === 'quick'));

/** The files of journeys that need a workspace to themselves. */
const apart: readonly JourneyFile[] = ['received', 'recipients', 'smarthosts', 'webhooks'];
const workspaceFor = (way: Way, file: JourneyFile) => `${way}-${file}`;

const receipt = {
	'template.json': '{"subject":"Receipt {{ number }}"}',
	'body.html': '<p>Total {{ total }}</p>',
	'sample.json': '{"number": 1042, "total": "19.90"}',
};
const templates = waysHere.flatMap(way => ['receipt', 'letter', 'card', 'code'].map(name => `${way}-${name}`));

export let receiver: Receiver;

/** One daemon and one browser for all journeys: starting them takes longer than a journey. */
export const service = serviceOf(test, {
	workspaces: {
		...{shop: [], other: [], third: []},
		...Object.fromEntries(waysHere.flatMap(way => apart.map(file => [workspaceFor(way, file), []]))),
	},
	async settings(scope) {
		receiver = await startReceiver(scope, await mkdtemp(join(tmpdir(), 'mailctl-hooks-')), ['hooks.shop.example']);
		receiver.zone['out.mail.example'] = {a: ['192.0.2.1']};
		return {...receiver.settings, MAILCTL_HOSTNAME: 'out.mail.example', MAILCTL_WEBHOOK_BACKOFF: '1ms'};
	},
	templates: Object.fromEntries(templates.map(name => [name, receipt])),
});
const browserFor = browserOf(test);

/** Creates a test of each journey of a file for each way of the stage. The file must walk its whole list. */
export function journeysOf<File extends JourneyFile>(file: File): Journey<JourneyTitle<File>> {
	const walked = new Set<string>();
	test.serial(`walks every listed journey of ${file}`, t => {
		t.deepEqual([...walked].toSorted(), [...journeys[file]].toSorted());
	});
	return (title, walk) => {
		walked.add(title);
		for (const way of waysHere) {
			test.serial(`${title}, by ${way}`, async t => {
				const browser = await browserFor(t);
				if (browser === null) {
					return;
				}
				const complaints: string[][] = [];
				const open = async (visitor: Visitor) => {
					const opened = await openWindow(browser, {url: service().url, visitor});
					complaints.push(opened.complaints);
					t.teardown(() => opened.context.close());
					if (way === 'keys') {
						await opened.page.addInitScript(noMouse);
					}
					return {page: opened.page, ...handsOn(opened.page, way)};
				};
				const suitsAll = async (page: Page) => {
					t.deepEqual(way === 'mouse' ? await faultsOf(page, [deskView]) : [], []);
				};
				await walk(t, {way, workspace: workspaceFor(way, file), open, suitsAll, own: name => `${way}-${name}`});
				// The browser tells of each answer that refuses.
				t.deepEqual(
					complaints.flat().filter(text => !/status of 40[134]/.test(text)),
					[],
				);
			});
		}
	};
}
