import {de} from './de.ts';
import {en} from './en.ts';
import {es} from './es.ts';
import {fr} from './fr.ts';
import type {Language, Texts} from './wording.ts';

/** What the hosted pages say, in every language that they have. */
export const texts: Readonly<Record<Language, Texts>> = {en, de, fr, es};
