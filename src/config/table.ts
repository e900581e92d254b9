import type {Setting} from './setting.ts';
import {dashboard} from './table/dashboard.ts';
import {delivery} from './table/delivery.ts';
import {reports} from './table/reports.ts';
import {server} from './table/server.ts';
import {sources} from './table/sources.ts';
import {submission} from './table/submission.ts';
import {webhooks} from './table/webhooks.ts';

/** Every setting, in the order of the pages; the keys are the names in the code. */
export const table = {...server, ...dashboard, ...submission, ...delivery, ...sources, ...reports, ...webhooks};

/** The settings by what they are about, as the pages show them. */
export const topics: ReadonlyArray<{readonly title: string; readonly keys: readonly SettingKey[]}> = [
	topic('The process', server),
	topic('Dashboard', dashboard),
	topic('Submission', submission),
	topic('Delivery', delivery),
	topic('Sources', sources),
	topic('What comes back', reports),
	topic('Webhooks', webhooks),
];

type Table = typeof table;
export type SettingKey = keyof Table;
/** The table's values by key, before the derived defaults. */
export type TableValues = {readonly [K in SettingKey]: Table[K] extends Setting<infer T> ? T : never};
export const settingKeys = Object.keys(table) as SettingKey[];

function topic<Key extends SettingKey>(title: string, settings: Readonly<Record<Key, unknown>>) {
	return {title, keys: Object.keys(settings) as Key[]};
}
