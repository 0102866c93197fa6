"""Names of people in situations: thirteen times those of the stories, so that no name stands for a story."""

from __future__ import annotations

from ruplar.problems.word_problems.words import Person

_SHE = """
Abigail Ada Adele Agnes Aisha Alexa Alma Amanda Amber Amelia Amina Amy Andrea Angela Anita Annie Ariel Ashley Audrey
Aurora Beatrice Becky Bella Bethany Bianca Bonnie Brenda Bridget Brooke Camila Carla Carmen Carol Caroline Cassie Catherine
Cecilia Celeste Charlotte Chloe Christine Cindy Claudia Colleen Cora Daisy Dana Daphne Deborah Delia Denise Diana Dora Dorothy
Edith Eileen Elaine Eleanor Elena Elise Ellen Elsa Emily Erica Erin Esther Ethel Evelyn Faith Fatima Faye Fiona Flora Frances
Freya Gabriela Gemma Georgia Gina Gloria Grace Greta Gwen Hannah Harriet Hazel Heather Heidi Helen Holly Hope Ida Ingrid Irene
Iris Isabel Ivy Jacqueline Jada Janet Jasmine Jenna Jennifer Jessica Jill Joan Joanna Josie Joy Joyce Judith Julia Karen
Kayla Keisha Kelly Kim Kirsten Kristen Lara Laura Lauren Leah Lena Leslie Lila Linda Lisa Lola Lorraine Louise Luna Lydia Mabel
Mackenzie Madison Maggie Mandy Margaret Maria Marisol Martha Mary Megan Melanie Melissa Mercedes Michelle Mildred Miranda Molly
Monica Myra Nadia Nancy Naomi Natalie Nicole Olga Olivia Paige Pamela Patricia Paula Pearl Penny Phoebe Polly Priya Rachel
Rebecca Regina Renee Rhonda Rita Robin Rosalie Rosie Ruby Sabrina Sadie Sally Samantha Sandra Sasha Selena Shanice Sharon Sheila
Shelby Sherry Simone Sofia Sonia Stella Stephanie Susan Suzy Sylvia Tamara Tanya Teresa Tessa Tiffany Tina Tracy Valerie Vanessa
Vera Victoria Violet Vivian Wanda Wendy Whitney Willow Yasmin Yolanda Yvonne
"""
_HE = """
Aaron Abdul Abraham Aiden Alan Albert Alex Alfred Amir Andre Andrew Andy Anthony Antonio Arjun Arnold Arthur Austin Barry Bernard
Bill Billy Blake Bob Bobby Brad Bradley Brandon Brian Bruce Bryce Caleb Calvin Cameron Carl Carlos Carter Cedric Cesar Chad
Charles Charlie Chester Chris Christian Clark Clay Clifford Clyde Cody Cole Colin Connor Craig Curtis Dale Damon Daniel Darius
Darren Daryl Dave David Dean Dennis Derek Devon Diego Dominic Don Donald Doug Drew Duncan Dustin Dwayne Dylan Earl Eddie Edgar
Eduardo Edward Eli Elijah Elliot Emmanuel Ernest Ethan Evan Felix Fernando Francis Frank Fred Gabriel Gary Gavin Gene George
Gerald Gilbert Glenn Gordon Graham Grant Greg Gus Harold Harry Harvey Hector Henry Howard Hunter Ian Ibrahim Isaac Ivan Jacob
Jake Jamal James Jared Jason Javier Jay Jeff Jeremy Jerome Jerry Jesse Jim Jimmy Joe Joel John Johnny Jonah Jordan Jorge Jose
Joseph Josh Juan Julian Justin Karl Keith Kevin Kurt Kyle Lamar Lance Larry Lawrence Leon Leonard Lewis Lloyd Logan Lorenzo
Louis Lucas Luke Malcolm Malik Manuel Marco Marcus Mario Mark Marshall Martin Marvin Mason Matt Matthew Max Michael Miguel Mike
Miles Mitchell Mohammed Morgan Nathan Ned Neil Nelson Nick Nolan Norman Oliver Omari Otto Owen Pablo Patrick Pedro Perry Pete
Peter Philip Quentin Ralph Ramon Randy Ray Raymond Reggie Rex Ricardo Richard Rick Rob Robert Rodney Roger Roland Roman Ron
Rory Ross Roy Russell Ryan Samir Samuel Scott Sean Seth Shane Shawn Sidney Simon Spencer Stan Stephen Steve Stuart Terrence
Terry Theo Thomas Tim Timothy Todd Tony Travis Trevor Tyler Tyrone Vernon Victor Vincent Wade Walter Warren Wayne Wesley
William Winston Wyatt Xavier Yusuf Zachary Zane
"""

PERSONS = tuple(
    [Person(n, "she", "her", "her") for n in _SHE.split()] + [Person(n, "he", "him", "his") for n in _HE.split()]
)
