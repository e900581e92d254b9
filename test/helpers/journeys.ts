import process from 'node:process';
import type {ExecutionContext, TestFn} from 'ava';
import type {Page} from 'playwright-core';
import {browserOf} from './browser.ts';
import type {Visitor} from './dashboard.ts';
import {deskView, faultsOf, openWindow} from './dashboard-browser.ts';
import {type Hands, handsOn, type Way, ways} from './hands.ts';
import {type JourneyFile, type JourneyTitle, journeys, stageVariable} from './journey-list.ts';
import type {Service} from './service.ts';

export type Window = Hands & {readonly page: Page};
type Stage = {
	readonly way: Way;
	/** A name that the journey has for itself. */
	readonly own: (name: string) => string;
	readonly open: (visitor: Visitor) => Promise<Window>;
	/** Whether the page is fit for all as it is now. Both ways lead to the same, so it is looked at once. */
	readonly suitsAll: (page: Page) => Promise<void>;
};

type Journey<Title> = (title: Title, walk: (t: ExecutionContext, stage: Stage) => Promise<void>) => void;

/** Of the keyboard's journeys: whatever touched the page was no key. */
const noMouse = `addEventListener('pointerdown', () => console.error('A mouse was used.'), {capture: true})`;

/**
 * Makes two tests of each of a file's journeys: by mouse, and by the keyboard alone, as far as they are of the stage.
 * All of a file have one browser. The file walks all that the list has for it.
 */
export function journeysOf<File extends JourneyFile>(
	test: TestFn,
	file: File,
	service: () => Service,
): Journey<JourneyTitle<File>> {
	const browserFor = browserOf(test);
	const stage = process.env[stageVariable];
	const walked = new Set<string>();
	test.serial(`the journeys of ${file} are those of the list`, t => {
		t.deepEqual([...walked].toSorted(), [...journeys[file]].toSorted());
	});
	return (title, walk) => {
		walked.add(title);
		for (const way of ways.filter(way => !stage || (way === 'mouse') === (stage === 'quick'))) {
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
				await walk(t, {way, open, suitsAll, own: name => `${way}-${name}`});
				// The browser tells of each answer that refuses.
				t.deepEqual(
					complaints.flat().filter(text => !/status of 40[134]/.test(text)),
					[],
				);
			});
		}
	};
}
