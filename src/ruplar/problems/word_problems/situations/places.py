"""Frames of what nobody owns: those who come to a place and leave it."""

from ruplar.problems.word_problems.situations.frames import frame

FRAMES = (
    frame(
        "people, passengers, children, students, tourists, adults, soldiers, workers",
        "young/old, local/foreign, sitting/standing, tall/short",
        gain="{x} got on|get on, {x} boarded at the next stop|board at the next stop, {x} climbed aboard|climb aboard, {x} hopped on|hop on",
        lose="{x} got off|get off, {x} left at the next stop|leave at the next stop, {x} stepped off|step off",
        place="on the bus, on the train, on the ferry, on the boat, on the tram, on the subway, on the ship",
    ),
    frame(
        "people, children, guests, visitors, kids, boys, girls, fans, teenagers, women, men, students, players",
        "young/old, happy/bored, tall/short",
        gain="{x} arrived|arrive, {x} joined them|join them, {x} showed up later|show up later, {x} came|come",
        lose="{x} went home|go home, {x} left|leave, {x} left early|leave early, {x} walked away|walk away, {x} had to leave|have to leave",
        place="at the party, in the park, at the concert, in the museum, in the gym, at the beach, in the classroom, at the pool, in the library, at the wedding, in the theater, at the zoo, in the cafeteria, at the picnic, at the stadium, in the restaurant, at the playground, in the store",
    ),
    frame(
        "birds, pigeons, crows, sparrows, robins, owls, bluebirds, ravens, swallows, butterflies, bees, dragonflies, bats, finches",
        "black/white, big/small, yellow/brown",
        gain="{x} flew in|fly in, {x} landed there|land there, {x} arrived|arrive",
        lose="{x} flew away|fly away, {x} flew off|fly off, {x} left|leave, {x} were scared away|get scared away",
        place="in the tree, on the roof, on the wire, in the garden, in the yard, on the branch, in the meadow, near the barn",
    ),
    frame(
        "ducks, swans, fish, frogs, turtles, geese, beavers, otters, seals, penguins, dolphins, flamingos",
        "gray/white, male/female, young/old, big/little",
        gain="{x} swam over|swim over, {x} joined them|join them, {x} arrived|arrive",
        lose="{x} swam away|swim away, {x} left|leave, {x} moved on|move on",
        place="in the pond, in the lake, in the river, in the bay, in the lagoon",
    ),
    frame(
        "cars, trucks, motorcycles, vans, buses, tractors",
        "red/blue, new/old, small/large",
        gain="{x} drove in|drive in, {x} arrived|arrive, {x} pulled in|pull in",
        lose="{x} drove away|drive away, {x} left|leave, {x} were towed away|get towed away, {x} pulled out|pull out",
        place="in the parking lot, in the garage, on the street, at the rest stop, at the dealership, on the lot, at the gas station",
    ),
    frame(
        "cows, horses, sheep, deer, elephants, zebras, monkeys, kangaroos, goats, foxes, squirrels, rabbits, wolves, giraffes, lions, bears",
        "brown/white, young/grown, male/female",
        gain="{x} came along|come along, {x} were brought in|come in, {x} wandered in|wander in, {x} joined the group|join the group",
        lose="{x} ran away|run away, {x} left|leave, {x} were led away|get led away, {x} wandered off|wander off",
        place="in the field, in the meadow, at the zoo, in the forest, on the hill, near the river, in the barn, in the clearing",
    ),
    frame(
        "members, players, scouts, campers, volunteers, dancers, singers, actors, students, employees, swimmers, musicians",
        "new/old, junior/senior, experienced/beginning",
        gain="{x} joined|join, {x} signed up|sign up, {x} came back|come back",
        lose="{x} quit|quit, {x} dropped out|drop out, {x} moved away|move away, {x} left|leave",
        place="in the club, on the team, in the band, at the camp, in the choir, in the dance class, in the drama group, in the swimming class",
    ),
    frame(
        "boats, ships, sailboats, canoes, kayaks, yachts, fishing boats, ferries, rowboats",
        "big/small, white/blue, wooden/metal",
        gain="{x} sailed in|sail in, {x} arrived|arrive, {x} docked|dock, {x} came back|come back",
        lose="{x} sailed away|sail away, {x} left|leave, {x} went out to sea|go out to sea",
        place="in the harbor, at the dock, in the marina, at the pier",
    ),
    frame(
        "apples, peaches, oranges, pears, plums, lemons",
        "large/small, ripe/unripe",
        gain="{x} grew|grow, {x} appeared|appear",
        lose="{x} fell down|fall down, {x} dropped in the wind|drop in the wind, {x} were eaten by birds|get eaten by birds, {x} blew off|blow off",
        place="on the tree, on the branch, on the old tree, on the tree in the yard",
    ),
)
