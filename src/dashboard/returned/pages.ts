import type {DashboardParts} from '../parts.ts';
import type {Route} from '../route.ts';
import {explainPages} from './explain.ts';
import {returnedPages} from './list.ts';

/** Mail that came back and matches no message, and how such mail is read. */
export const returnedMailPages = (parts: DashboardParts): readonly Route[] => [
	...returnedPages(parts),
	...explainPages(parts),
];
