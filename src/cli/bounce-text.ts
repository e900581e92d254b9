import type {Reading} from '../mail/report.ts';
import {fields} from './table.ts';

export function explained({kind, reports}: Reading, _width: number): string[] {
	return [
		kind,
		...reports.flatMap(r =>
			fields([
				['recipient', r.recipient],
				['action', r.action],
				['type', r.type],
				['category', r.category],
				['suppresses', String(r.suppresses)],
				['rule', r.rule],
				['matched', r.matched],
				['reason', r.reason],
			]),
		),
	];
}
