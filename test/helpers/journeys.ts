import type {ExecutionContext, TestFn} from 'ava';
import type {Page} from 'playwright-core';
import {browserOf} from './browser.ts';
import type {Visitor} from './dashboard.ts';
import {openWindow} from './dashboard-browser.ts';
import {type Hands, handsOn, type Way, ways} from './hands.ts';
import type {Service} from './service.ts';

export type Window = Hands & {readonly page: Page};
type Stage = {
	readonly way: Way;
	/** A name that the journey has for itself. */
	readonly own: (name: string) => string;
	readonly open: (visitor: Visitor) => Promise<Window>;
};

type Journey = (title: string, walk: (t: ExecutionContext, stage: Stage) => Promise<void>) => void;

/** Makes two tests of what people do: by mouse, and by the keyboard alone. All of a file have one browser. */
export function journeysOf(test: TestFn, service: () => Service): Journey {
	const browserFor = browserOf(test);
	return (title, walk) => {
		for (const way of ways) {
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
					return {page: opened.page, ...handsOn(opened.page, way)};
				};
				await walk(t, {way, open, own: name => `${way}-${name}`});
				// The browser tells of each answer that refuses.
				t.deepEqual(
					complaints.flat().filter(text => !/status of 40[34]/.test(text)),
					[],
				);
			});
		}
	};
}
