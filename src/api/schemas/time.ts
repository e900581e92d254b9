import {Type} from './type.ts';

/** A time of an answer. */
export const time = Type.String({description: 'UTC, `2026-06-09T10:15:30+00:00`'});
